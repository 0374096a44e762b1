#include "runtime/row_work.hpp"

namespace tpinfer {

void do_row(const RowTask& task, std::span<const float> logits, SamplingScratch& scratch, RowOutcome& outcome) {
  outcome.token = {};
  outcome.top.clear();
  const RowStatistics statistics = row_statistics(logits);
  outcome.finite = statistics.finite;
  if (!statistics.finite || (task.given < 0 && !task.choose)) return;
  const std::int32_t id = task.given >= 0 ? task.given : sample_token(logits, *task.params, task.context, scratch);
  if (id < 0) return;
  outcome.token = {id, logprob_of(logits, statistics, id)};
  top_logprobs(logits, statistics, task.top_k, outcome.top);
}

}  // namespace tpinfer
