#pragma once

#include <vector>

#include "runtime/sampler.hpp"

namespace tpinfer {

/// Changes raw logits [vocab] by what the parameters and the tokens so far say, in Hugging Face's order: logit_bias,
/// repetition penalty (prompt and output, once per id), frequency and presence penalty (output; as vLLM),
/// no_repeat_ngram_size, bad_words, min_new_tokens; ids that no token has are banned. A banned id gets -infinity.
void apply_logit_rules(std::vector<float>& logits, const SamplingParams& params, const SampleContext& context);

}  // namespace tpinfer
