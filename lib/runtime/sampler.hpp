#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "job/sampling.hpp"
#include "runtime/random.hpp"

namespace tpinfer {

/// A token and its log probability under the raw distribution (natural logarithm).
struct TokenLogprob {
  std::int32_t id = -1;
  float logprob = 0;
};

/// Log-sum-exp of one row of raw logits; false in `finite` when the row holds NaN or +infinity.
struct RowStatistics {
  double log_normaliser = 0;  ///< log probability of id i = logits[i] - log_normaliser
  bool finite = true;
};

/// Over the whole row in ascending id; the same for any split of the vocabulary over ranks.
RowStatistics row_statistics(std::span<const float> logits);

inline float logprob_of(std::span<const float> logits, const RowStatistics& row, std::int32_t id) {
  return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) - row.log_normaliser);
}

/// The k most probable ids into `top`, best first; equal logits in ascending id.
void top_logprobs(std::span<const float> logits, const RowStatistics& row, std::int64_t k,
                  std::vector<TokenLogprob>& top);

/// What the next token may depend on besides the logits.
struct SampleContext {
  std::span<const std::int32_t> eos_ids;                 ///< banned while fewer than min_new_tokens are out
  std::span<const std::uint8_t> allowed_ids;             ///< [vocab] 0: no token has this id; empty: all may be sampled
  std::span<const std::int32_t> tokens;                  ///< prompt and output so far
  std::int64_t prompt_tokens = 0;                        ///< of these, the prompt
  std::span<const std::vector<std::int32_t>> bad_words;  ///< each as ids
  DrawKey draw;
};

/// The distribution that a token is drawn from, after all parameters: ids in ascending order and their probabilities
/// (they sum to 1).
struct Distribution {
  std::vector<std::int32_t> ids;
  std::vector<double> probabilities;
};

/// Memory of next_token_distribution() that lasts from row to row.
struct SamplingScratch {
  Distribution distribution;
  std::vector<float> logits, heap;
  std::vector<std::uint32_t> order;
  std::vector<double> sums;
};

/// How a token is taken from logits that all other rules were applied to.
struct DrawRules {
  bool greedy = false;  ///< the highest logit
  double temperature = 1.0;
  std::int64_t top_k = 0;  ///< 0: all
  double top_p = 1.0, min_p = 0.0;
};

inline DrawRules draw_rules(const SamplingParams& params) noexcept {
  return {.greedy = !params.do_sample || params.temperature == 0,
          .temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p};
}

/// The distribution of scratch.logits, which are changed; see next_token_distribution().
const Distribution& distribution_of(const DrawRules& rules, SamplingScratch& scratch);

/// Exact next-token distribution in Hugging Face's order of the parameters; greedy gives one id. Without ids when every
/// id is banned or at -infinity.
const Distribution& next_token_distribution(std::span<const float> logits, const SamplingParams& params,
                                            const SampleContext& context, SamplingScratch& scratch);
inline Distribution next_token_distribution(std::span<const float> logits, const SamplingParams& params,
                                            const SampleContext& context) {
  SamplingScratch scratch;
  return next_token_distribution(logits, params, context, scratch);
}

/// The id whose share of [0, 1), in ascending id, holds the draw; -1 when there are no ids.
std::int32_t draw_token(const Distribution& distribution, double draw);
inline std::int32_t draw_token(const Distribution& distribution, const DrawKey& key) {
  return draw_token(distribution, uniform_draw(key));
}

/// Next token: greedy (highest logit, ties to the lowest id) or drawn by the counter-based generator; -1 when no id may
/// come.
std::int32_t sample_token(std::span<const float> logits, const SamplingParams& params, const SampleContext& context,
                          SamplingScratch& scratch);
inline std::int32_t sample_token(std::span<const float> logits, const SamplingParams& params,
                                 const SampleContext& context) {
  SamplingScratch scratch;
  return sample_token(logits, params, context, scratch);
}

}  // namespace tpinfer
