#include "runtime/prompt_reading.hpp"

#include "core/error.hpp"
#include "core/ordered_work.hpp"
#include "runtime/rank_worker.hpp"

namespace tpinfer {
namespace {

// Of one piece of work: enough that handing it over costs nothing.
constexpr std::size_t kBatchRecords = 256;
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

using RawBatch = std::vector<RawPrompt>;
using Batch = std::vector<PlacedPrompt>;

PlacedPrompt encode_one(const PromptStream& stream, const PromptEncoder& encoder, RawPrompt&& raw) {
  const std::size_t file = raw.file_index;
  const std::int64_t number = raw.number;
  return {encoder.encode(stream.read(std::move(raw))), file, number};
}

Batch encode_batch(const PromptStream& stream, const PromptEncoder& encoder, RawBatch&& raw) {
  Batch batch;
  batch.reserve(raw.size());
  for (RawPrompt& one : raw) batch.push_back(encode_one(stream, encoder, std::move(one)));
  return batch;
}

}  // namespace

PromptReading::PromptReading(const Job& job, StopReading stopped)
    : job_(job),
      stopped_(std::move(stopped)),
      chat_(job.prompts, job.model.tokenizer_path()),
      stream_(job.prompts, chat_, [this] { return ending_ || (stopped_ && stopped_()); }),
      collector_(stream_) {}

bool PromptReading::take_one(RawPrompt& raw) {
  if (!ahead_) return stream_.next(raw);
  raw = std::move(*ahead_);
  ahead_.reset();
  return true;
}

bool PromptReading::read(const EncodingTerms& terms, const PartLimit& limit, std::vector<PromptRow>& rows,
                         std::vector<Request>& requests) try {
  const PromptEncoder encoder(terms);
  std::int64_t prompts = 0;
  std::uint64_t bytes = 0;
  RawPrompt one;
  bool more = take_one(one);
  const auto gather = [&] {
    RawBatch raw;
    std::size_t batch = 0;
    for (; more && raw.size() < kBatchRecords && batch < kBatchBytes && prompts < limit.prompts && bytes < limit.bytes;
         more = stream_.next(one)) {
      batch += one.bytes();
      bytes += one.bytes();
      ++prompts;
      raw.push_back(std::move(one));
    }
    return raw;
  };
  RawBatch raw = gather();
  const bool goes_on = more && prompts < limit.prompts && bytes < limit.bytes;
  // few prompts are not worth a thread
  const int threads = goes_on ? static_cast<int>(job_.parallel.threads.value_or(usable_cores())) : 1;
  OrderedWork<RawBatch, Batch> work(
      threads, [&](RawBatch&& in) { return encode_batch(stream_, encoder, std::move(in)); },
      [&](Batch&& batch) {
        for (PlacedPrompt& placed : batch) {
          collector_.take(placed, rows);
          if (placed.prompt.request) requests.push_back(std::move(*placed.prompt.request));
          rows.push_back(std::move(placed.prompt.row));
        }
      });
  for (; !raw.empty(); raw = gather()) work.push(std::move(raw));
  work.finish();
  if (more) ahead_ = std::move(one);
  return more;
} catch (const ReadingStopped&) {
  throw Error(ExitCode::stopped_early, "stopped by a signal while reading prompts", "run the same command to go on");
}

std::optional<PlacedPrompt> PromptReading::next(const PromptEncoder& encoder) {
  RawPrompt raw;
  if (!take_one(raw)) return std::nullopt;
  return encode_one(stream_, encoder, std::move(raw));
}

void PromptReading::finish(const Log& log) const {
  stream_.check_not_empty();
  collector_.tell(job_.prompts, log);
  chat_.check();
}

}  // namespace tpinfer
