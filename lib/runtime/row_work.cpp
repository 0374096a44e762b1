#include "runtime/row_work.hpp"

#include <algorithm>

#include "runtime/logit_rules.hpp"
#include "runtime/row_loops.hpp"

namespace tpinfer {
namespace {

// Around choose(), which gives the token: what do_row() and do_wish() have in common.
template <class Choose>
void find_outcome(bool wanted, std::int64_t alternatives, std::span<const float> logits, const Choose& choose,
                  RowOutcome& outcome) {
  outcome.token = {};
  outcome.top.clear();
  const RowStatistics statistics = row_statistics(logits);
  outcome.finite = statistics.finite;
  if (!statistics.finite || !wanted) return;
  const std::int32_t id = choose();
  if (id < 0) return;
  outcome.token = {id, logprob_of(logits, statistics, id)};
  top_logprobs(logits, statistics, alternatives, outcome.top);
}

}  // namespace

void do_row(const RowTask& task, std::span<const float> logits, SamplingScratch& scratch, RowOutcome& outcome) {
  const auto choose = [&] {
    return task.given >= 0 ? task.given : sample_token(logits, *task.params, task.context, scratch);
  };
  find_outcome(task.given >= 0 || task.choose, task.top_k, logits, choose, outcome);
}

RowWish wish_of(const RowTask& task, std::int64_t vocab, std::vector<LogitEdit>& edits,
                std::vector<std::uint32_t>& memory) {
  RowWish wish{.given = task.given,
               .choose = task.choose ? 1 : 0,
               .first_edit = static_cast<std::int32_t>(edits.size()),
               .alternatives = static_cast<std::int32_t>(std::min(task.top_k, vocab))};
  if (task.given >= 0 || !task.choose) return wish;
  const SamplingParams& params = *task.params;
  append_logit_edits(vocab, params, task.context, edits, memory);
  wish.edits = static_cast<std::int32_t>(edits.size()) - wish.first_edit;
  wish.known_only = params.allow_unknown_ids || task.context.allowed_ids.empty() ? 0 : 1;
  const DrawRules rules = draw_rules(params);
  wish.greedy = rules.greedy ? 1 : 0;
  wish.temperature = rules.greedy ? 1.0 : rules.temperature;
  wish.top_k = static_cast<std::int32_t>(std::min(rules.top_k, vocab));
  wish.top_p = rules.top_p;
  wish.min_p = rules.min_p;
  wish.draw = uniform_draw(task.context.draw);
  return wish;
}

void do_wish(const RowWish& wish, std::span<const LogitEdit> edits, std::span<const std::uint8_t> known,
             std::span<const float> logits, SamplingScratch& scratch, RowOutcome& outcome) {
  const auto choose = [&] {
    if (wish.given >= 0) return wish.given;
    scratch.logits.assign(logits.begin(), logits.end());
    apply_logit_edits(scratch.logits,
                      edits.subspan(static_cast<std::size_t>(wish.first_edit), static_cast<std::size_t>(wish.edits)));
    if (wish.known_only != 0) ban_unknown(scratch.logits, known);
    const DrawRules rules{.greedy = wish.greedy != 0,
                          .temperature = wish.temperature,
                          .top_k = wish.top_k,
                          .top_p = wish.top_p,
                          .min_p = wish.min_p};
    return draw_token(distribution_of(rules, scratch), wish.draw);
  };
  find_outcome(wish.given >= 0 || wish.choose != 0, wish.alternatives, logits, choose, outcome);
}

}  // namespace tpinfer
