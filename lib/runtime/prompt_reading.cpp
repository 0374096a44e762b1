#include "runtime/prompt_reading.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "core/bytes.hpp"
#include "core/ordered_work.hpp"
#include "runtime/rank_worker.hpp"

namespace tpinfer {
namespace {

// Of one piece of work: enough that handing it over costs nothing.
constexpr std::size_t kBatchRecords = 256;
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

constexpr std::size_t kMostShared = 10'000;  // parameters that are looked for again

using RawBatch = std::vector<RawPrompt>;

/// A prompt with the place of its record, for messages.
struct PlacedPrompt {
  EncodedPrompt prompt;
  std::size_t file = 0;
  std::int64_t number = 0;
};
using Batch = std::vector<PlacedPrompt>;

/// Puts the encoded prompts into the preparation.
class Collector {
 public:
  Collector(const PromptStream& stream, Preparation& p) : stream_(stream), p_(p) {}

  void take(Batch&& batch) {
    for (PlacedPrompt& placed : batch) {
      EncodedPrompt& prompt = placed.prompt;
      lacks_tokenizer_ |= prompt.lacks_tokenizer;
      texts_ += prompt.is_text ? 1 : 0;
      cut_ += prompt.is_cut ? 1 : 0;
      twice_ += prompt.begins_twice ? 1 : 0;
      if (prompt.request) {
        prompt.request->prompt_index = static_cast<std::int64_t>(p_.prompts.size());
        share(prompt.request->params);
        p_.requests.push_back(std::move(*prompt.request));
      }
      places_.push_back({placed.file, placed.number});
      p_.prompts.push_back(std::move(prompt.row));
    }
  }

  // Resuming and seeds go by ids.
  void refuse_duplicate_ids() const {
    std::vector<std::pair<std::uint64_t, std::size_t>> hashes;
    hashes.reserve(p_.prompts.size());
    for (std::size_t row = 0; row < p_.prompts.size(); ++row) hashes.emplace_back(hash_bytes(p_.prompts[row].id), row);
    std::ranges::sort(hashes);
    std::size_t earlier = 0, later = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < hashes.size(); ++i)
      for (std::size_t k = i + 1; k < hashes.size() && hashes[k].first == hashes[i].first; ++k) {
        const auto [first, second] = std::pair(hashes[i].second, hashes[k].second);
        if (second >= later || p_.prompts[first].id != p_.prompts[second].id) continue;
        earlier = first;
        later = second;
        break;
      }
    if (later < p_.prompts.size())
      throw Error(
          ExitCode::input,
          fmt::format("{}: the id \"{}\" stands at {} already", place(later), p_.prompts[later].id, place(earlier)),
          "ids must be unique: they are what resuming and seeds go by");
  }

  void tell(const PromptsJob& job, const Log& log) const {
    if (cut_ > 0)
      log.warning("{} of {} prompts were too long and have been cut (prompts.on_too_long)", cut_, p_.prompts.size());
    if (twice_ > 0)
      log.warning(
          "{} of {} prompts have the begin token already, and the tokenizer puts another before it, as the reference "
          "does (prompts.add_special_tokens: false for texts that are rendered already)",
          twice_, p_.prompts.size());
    if (job.system && texts_ > 0)
      log.warning("prompts.system is for records with messages: {} of {} prompts have none", texts_, p_.prompts.size());
  }

  bool lacks_tokenizer() const noexcept { return lacks_tokenizer_; }

 private:
  // Many records of a file ask for the same.
  void share(std::shared_ptr<const SamplingParams>& params) {
    if (params == last_) return;
    auto& known = known_[params_hash(*params)];
    if (known && *known == *params)
      params = known;
    else if (known_.size() <= kMostShared)
      known = params;
    last_ = params;
  }

  std::string place(std::size_t row) const { return stream_.place(places_[row].first, places_[row].second); }

  const PromptStream& stream_;
  Preparation& p_;
  std::vector<std::pair<std::size_t, std::int64_t>> places_;                        ///< [prompts] file and line
  std::unordered_map<std::uint64_t, std::shared_ptr<const SamplingParams>> known_;  ///< by hash
  std::shared_ptr<const SamplingParams> last_;
  bool lacks_tokenizer_ = false;
  std::size_t texts_ = 0, cut_ = 0, twice_ = 0;
};

Batch encode_batch(const PromptStream& stream, const PromptEncoder& encoder, RawBatch&& raw) {
  Batch batch;
  batch.reserve(raw.size());
  for (RawPrompt& one : raw) {
    const std::size_t file = one.file_index;
    const std::int64_t number = one.number;
    batch.push_back({encoder.encode(stream.read(std::move(one))), file, number});
  }
  return batch;
}

}  // namespace

bool read_all_prompts(PromptStream& stream, const EncodingTerms& terms, Preparation& p, const Log& log) {
  const PromptEncoder encoder(terms);
  Collector collector(stream, p);
  const auto encode = [&](RawBatch&& raw) { return encode_batch(stream, encoder, std::move(raw)); };
  RawBatch raw;
  std::size_t bytes = 0;
  RawPrompt one;
  bool more = stream.next(one);
  const auto gather = [&] {
    raw.clear();
    for (bytes = 0; more && raw.size() < kBatchRecords && bytes < kBatchBytes; more = stream.next(one)) {
      bytes += one.bytes();
      raw.push_back(std::move(one));
    }
  };
  gather();
  // few prompts are not worth a thread
  const int threads = more ? static_cast<int>(terms.job.parallel.threads.value_or(usable_cores())) : 1;
  OrderedWork<RawBatch, Batch> work(threads, encode, [&](Batch&& batch) { collector.take(std::move(batch)); });
  for (; !raw.empty(); gather()) work.push(std::move(raw));
  work.finish();
  stream.check_not_empty();
  collector.refuse_duplicate_ids();
  collector.tell(terms.job.prompts, log);
  return collector.lacks_tokenizer();
}

}  // namespace tpinfer
