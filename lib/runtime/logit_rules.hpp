#pragma once

#include <vector>

#include "backend/row_choice.hpp"
#include "runtime/sampler.hpp"

namespace tpinfer {

/// Changes raw logits [vocab] by what the parameters and the tokens so far say, in Hugging Face's order: logit_bias,
/// repetition penalty (prompt and output, once per id), frequency and presence penalty (output; as vLLM),
/// no_repeat_ngram_size, bad_words, min_new_tokens; ids that no token has are banned. A banned id gets -infinity.
/// `memory` is for use meanwhile.
void apply_logit_rules(std::vector<float>& logits, const SamplingParams& params, const SampleContext& context,
                       std::vector<std::uint32_t>& memory);

/// The same for a device that holds the logits, but for ids that no token has: what is done to which ids goes to the
/// end of `edits`.
void append_logit_edits(std::int64_t vocab, const SamplingParams& params, const SampleContext& context,
                        std::vector<LogitEdit>& edits, std::vector<std::uint32_t>& memory);

/// Does the edits of one row to its raw logits: the bits of apply_logit_rules().
void apply_logit_edits(std::span<float> logits, std::span<const LogitEdit> edits);

}  // namespace tpinfer
