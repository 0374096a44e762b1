#include "output/row_codec.hpp"

namespace tpinfer {
namespace {

// The fields of each row in one order for both directions.
template <class Row, class Numbers, class Lists>
void for_each_answer_field(Row& r, Numbers number, Lists list) {
  number(r.prompt_index), number(r.sample_index), number(r.text_bytes), number(r.text_lossy), number(r.top_k);
  number(r.finish_reason), number(r.cumulative_logprob), number(r.t_queued), number(r.t_first_token);
  number(r.t_finished), number(r.attempt);
  list(r.token_ids), list(r.logprobs), list(r.top_ids), list(r.top_logprobs);
}

template <class Row, class Numbers, class Lists>
void for_each_score_field(Row& r, Numbers number, Lists list) {
  number(r.prompt_top_k);
  list(r.prompt_logprobs), list(r.prompt_top_ids), list(r.prompt_top_logprobs);
}

template <class Row, class Numbers>
void for_each_step_field(Row& r, Numbers number) {
  number(r.t), number(r.sequences), number(r.tokens), number(r.kv_blocks_used), number(r.waiting);
  number(r.preemptions), number(r.shared_tokens);
}

template <class T>
T get_number(ByteReader& from, const T&) {
  return from.get<T>();
}

}  // namespace

void put(ByteWriter& to, const AnswerRow& row) {
  const auto each = [&](const auto& value) { to.put(value); };
  for_each_answer_field(row, each, each);
  to.put(row.text);
}

AnswerRow get_answer_row(ByteReader& from) {
  AnswerRow row;
  for_each_answer_field(
      row, [&](auto& value) { value = get_number(from, value); }, [&](auto& list) { from.get_list(list); });
  row.text = from.get_string();
  return row;
}

void put_scores(ByteWriter& to, const PromptRow& row) {
  const auto each = [&](const auto& value) { to.put(value); };
  for_each_score_field(row, each, each);
}

PromptRow get_scores(ByteReader& from) {
  PromptRow row;
  for_each_score_field(
      row, [&](auto& value) { value = get_number(from, value); }, [&](auto& list) { from.get_list(list); });
  return row;
}

void put(ByteWriter& to, const StepRow& row) {
  for_each_step_field(row, [&](const auto& value) { to.put(value); });
}

StepRow get_step_row(ByteReader& from) {
  StepRow row;
  for_each_step_field(row, [&](auto& value) { value = get_number(from, value); });
  return row;
}

}  // namespace tpinfer
