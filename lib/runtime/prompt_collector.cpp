#include "runtime/prompt_collector.hpp"

#include <algorithm>

#include "core/bytes.hpp"
#include "core/checked_cast.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostShared = 10'000;  // parameters that are looked for again
constexpr std::size_t kLeastSlots = 1024;

std::size_t first_slot(const std::string& id, std::size_t slots) { return hash_bytes(id) & (slots - 1); }

}  // namespace

void PromptCollector::take(PlacedPrompt& placed, const std::vector<PromptRow>& earlier) {
  EncodedPrompt& prompt = placed.prompt;
  lacks_tokenizer_ |= prompt.lacks_tokenizer;
  texts_ += prompt.is_text ? 1 : 0;
  cut_ += prompt.is_cut ? 1 : 0;
  twice_ += prompt.begins_twice ? 1 : 0;
  if (prompt.request) {
    prompt.request->prompt_index = static_cast<std::int64_t>(places_.size());
    share(prompt.request->params);
  }
  places_.emplace_back(placed.file, placed.number);
  know_id(prompt.row.id, earlier);
}

void PromptCollector::know_id(const std::string& id, const std::vector<PromptRow>& earlier) {
  if (2 * places_.size() > slots_.size()) grow(earlier);
  std::size_t slot = first_slot(id, slots_.size());
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const std::size_t row = slots_[slot] - 1;
    if (earlier[row].id == id)
      throw Error(ExitCode::input,
                  fmt::format("{}: the id \"{}\" stands at {} already", place(places_.size() - 1), id, place(row)),
                  "ids must be unique: they are what resuming and seeds go by");
  }
  slots_[slot] = checked_cast<std::uint32_t>(places_.size());
}

void PromptCollector::grow(const std::vector<PromptRow>& earlier) {
  slots_.assign(std::max(kLeastSlots, 2 * slots_.size()), 0);
  for (std::size_t row = 0; row < earlier.size(); ++row) {
    std::size_t slot = first_slot(earlier[row].id, slots_.size());
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = static_cast<std::uint32_t>(row + 1);
  }
}

// Many records of a file ask for the same.
void PromptCollector::share(std::shared_ptr<const SamplingParams>& params) {
  if (params == last_) return;
  auto& known = known_[params_hash(*params)];
  if (known && *known == *params)
    params = known;
  else if (known_.size() <= kMostShared)
    known = params;
  last_ = params;
}

void PromptCollector::forget() noexcept {
  places_ = {};
  slots_ = {};
  known_.clear();
}

void PromptCollector::tell(const PromptsJob& job, const Log& log) const {
  const std::size_t all = places_.size();
  if (cut_ > 0) log.warning("{} of {} prompts were too long and have been cut (prompts.on_too_long)", cut_, all);
  if (twice_ > 0)
    log.warning(
        "{} of {} prompts have the begin token already, and the tokenizer puts another before it, as the reference "
        "does (prompts.add_special_tokens: false for texts that are rendered already)",
        twice_, all);
  if (job.system && texts_ > 0)
    log.warning("prompts.system is for records with messages: {} of {} prompts have none", texts_, all);
}

}  // namespace tpinfer
