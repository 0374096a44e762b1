#include "runtime/step_inputs.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {

void StepInputs::append(std::span<const std::int32_t> list, std::size_t size, std::int32_t filler) {
  ints_.insert(ints_.end(), list.begin(), list.end());
  ints_.resize(ints_.size() + size - list.size(), filler);
}

void StepInputs::fill(const Step& step, StepSize size) {
  const auto own = static_cast<std::size_t>(step.table_width);
  const auto added = static_cast<std::size_t>(size.rows - step.rows());
  real_rows_ = step.tokens.size();
  rows_ = real_rows_ + added;
  sequences_ = static_cast<std::size_t>(step.sequences()) + added;
  width_ = static_cast<std::size_t>(size.table_width);
  logit_rows_ = std::ssize(step.logit_rows);
  ints_.clear();
  append(step.tokens, rows_, 0);
  append(step.slots, rows_, -1);
  append(step.positions, rows_, 0);
  append(step.row_begin, sequences_ + 1, static_cast<std::int32_t>(real_rows_));
  if (own == width_)
    append(step.block_table, sequences_ * width_, -1);
  else
    for (std::size_t s = 0; s < sequences_; ++s)
      append(std::span(step.block_table)
                 .subspan(std::min(s * own, step.block_table.size()), s * own < step.block_table.size() ? own : 0),
             width_, -1);
  logits_at_ = ints_.size();
  append(step.logit_rows, step.logit_rows.size() + added, 0);
  most_rows_ = most_context_ = 0;
  for (std::size_t s = 0; s + 1 < step.row_begin.size(); ++s) {
    most_rows_ = std::max<std::int64_t>(most_rows_, step.row_begin[s + 1] - step.row_begin[s]);
    most_context_ =
        std::max<std::int64_t>(most_context_, step.positions[static_cast<std::size_t>(step.row_begin[s + 1]) - 1] + 1);
  }
}

void StepInputs::put_tokens(std::span<const std::int32_t> tokens) {
  if (tokens.size() != real_rows_)
    throw Error(ExitCode::internal, fmt::format("{} tokens came for a step of {} rows", tokens.size(), real_rows_));
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    ints_[r] = std::max(tokens[r], 0);
    if (tokens[r] < 0) ints_[rows_ + r] = -1;
  }
}

StepBatch StepInputs::batch(const std::int32_t* device) const noexcept {
  return {.rows = rows(),
          .tokens = device,
          .positions = device + 2 * rows_,
          .slots = device + rows_,
          .sequences = static_cast<std::int64_t>(sequences_),
          .row_begin = device + 3 * rows_,
          .block_table = device + 3 * rows_ + sequences_ + 1,
          .table_width = static_cast<std::int64_t>(width_),
          .max_context = most_context_,
          .max_rows = most_rows_};
}

}  // namespace tpinfer
