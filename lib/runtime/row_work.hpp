#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/row_choice.hpp"
#include "runtime/sampler.hpp"

namespace tpinfer {

/// What is wanted of one row of logits: the log probability of a given token (the prompt's next one), or a new token.
struct RowTask {
  const SamplingParams* params = nullptr;
  SampleContext context;
  std::int32_t given = -1;  ///< token to score; -1: a new one is chosen
  bool choose = false;      ///< false with given < 0: nothing is wanted of this row
  std::int64_t top_k = 0;   ///< best tokens to tell besides
};

struct RowOutcome {
  bool finite = true;             ///< no NaN or +infinity among the logits
  TokenLogprob token;             ///< scored or chosen; id -1: no token may follow
  std::vector<TokenLogprob> top;  ///< best first
};

/// Into `outcome`, reusing its memory and the scratch's.
void do_row(const RowTask& task, std::span<const float> logits, SamplingScratch& scratch, RowOutcome& outcome);

/// The task for another rank or a device, which knows no prompts and parameters; what is done to single logits goes to
/// the end of `edits`.
RowWish wish_of(const RowTask& task, std::int64_t vocab, std::vector<LogitEdit>& edits,
                std::vector<std::uint32_t>& memory);

/// do_row() of the task that the wish was made of, with the same bits. `edits`: the list that it points into; `known`:
/// SampleContext::allowed_ids.
void do_wish(const RowWish& wish, std::span<const LogitEdit> edits, std::span<const std::uint8_t> known,
             std::span<const float> logits, SamplingScratch& scratch, RowOutcome& outcome);

}  // namespace tpinfer
