#include "runtime/device_rows.hpp"

#include <algorithm>

namespace tpinfer {
bool DeviceRows::prepare(std::span<const RowTask> tasks, std::int64_t vocab) {
  if (std::ranges::any_of(tasks, [](const RowTask& task) { return task.top_k > kMostDeviceAlternatives; }))
    return false;
  wishes_.clear();
  edits_.clear();
  known_ = {};
  for (const RowTask& task : tasks) {
    wishes_.push_back(wish_of(task, vocab, edits_, memory_));
    if (!task.context.allowed_ids.empty()) known_ = task.context.allowed_ids;
  }
  return true;
}

void DeviceRows::finish(RowChooser& chooser, std::span<RowOutcome> outcomes) {
  chooser.take_choices(choices_, alternatives_);
  const std::size_t most = wishes_.empty() ? 0 : alternatives_.size() / wishes_.size();
  for (std::size_t i = 0; i < wishes_.size(); ++i) {
    RowOutcome& outcome = outcomes[i];
    outcome.finite = choices_[i].finite != 0;
    outcome.token = outcome.finite && choices_[i].token >= 0 ? TokenLogprob{choices_[i].token, choices_[i].logprob}
                                                             : TokenLogprob{};
    outcome.top.clear();
    if (outcome.token.id < 0) continue;
    for (std::int32_t k = 0; k < wishes_[i].alternatives; ++k) {
      const RankedId& best = alternatives_[i * most + static_cast<std::size_t>(k)];
      outcome.top.push_back({best.id, best.logprob});
    }
  }
}

}  // namespace tpinfer
