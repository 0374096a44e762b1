#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace tpinfer
