#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json.hpp"

namespace tpinfer {

/// `auto` is true when the job or the record gives a temperature, otherwise what generation_config.json says,
/// otherwise false.
enum class DoSample : std::uint8_t { automatic, yes, no };

using OptionalInt = std::optional<std::int64_t>;
using LogitBias = std::map<std::int64_t, double>;  // token id -> added to its logit

/// How one prompt is sampled, nothing left open. The initial values are the defaults of the job file.
struct SamplingParams {
  std::int64_t max_new_tokens = 256;  // 0 only where prompt_logprobs is asked for
  OptionalInt max_length;             // prompt and new tokens; with max_new_tokens the smaller of the two holds
  std::int64_t min_new_tokens = 0;
  bool do_sample = false;  // false = greedy, also where temperature is 0
  double temperature = 1.0;
  std::int64_t top_k = 0;  // 0 = off
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  std::int64_t no_repeat_ngram_size = 0;
  std::vector<std::string> bad_words;
  LogitBias logit_bias;
  std::vector<std::string> stop;
  std::vector<std::int64_t> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;
  std::int64_t seed = 0;  // 0 .. 2^63 - 1
  std::int64_t n = 1;
  OptionalInt logprobs;         // k best per answer token, 0 .. kMaxLogprobs
  OptionalInt prompt_logprobs;  // k best per prompt token, 0 .. kMaxLogprobs
  bool skip_special_tokens = true;
  bool allow_unknown_ids = false;

  static constexpr std::int64_t kMaxLogprobs = 100;
  bool operator==(const SamplingParams&) const = default;
};

/// The keys of `sampling` that somebody gave: the job with --set, a record's "params", or generation_config.json.
/// An inner optional is a given null.
struct SamplingRequest {
  OptionalInt max_new_tokens;
  std::optional<OptionalInt> max_length;
  OptionalInt min_new_tokens;
  std::optional<DoSample> do_sample;
  std::optional<double> temperature;
  OptionalInt top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  OptionalInt no_repeat_ngram_size;
  std::optional<std::vector<std::string>> bad_words;
  std::optional<LogitBias> logit_bias;
  std::optional<std::vector<std::string>> stop;
  std::optional<std::vector<std::int64_t>> stop_token_ids;
  std::optional<bool> ignore_eos;
  std::optional<bool> include_stop_str_in_output;
  OptionalInt seed;
  OptionalInt n;
  std::optional<OptionalInt> logprobs;
  std::optional<OptionalInt> prompt_logprobs;
  std::optional<bool> skip_special_tokens;
  std::optional<bool> allow_unknown_ids;

  bool operator==(const SamplingRequest&) const = default;
};

/// Key by key: the record's, then the job's, then generation_config's, then the default. Error(input), beginning with
/// `where`, for what no single source shows: more tokens at least than at most, no new tokens although nobody asked for
/// the prompt's log probabilities.
SamplingParams resolve_sampling(const SamplingRequest& record, const SamplingRequest& job,
                                const SamplingRequest& generation_config, const std::string& where = "sampling");

/// The sampling values of a parsed generation_config.json: do_sample, temperature, top_k, top_p, min_p,
/// repetition_penalty, no_repeat_ngram_size. Lengths are the job's affair; all else is ignored, and so are nulls.
/// Error(input) for a value out of range.
SamplingRequest parse_generation_config(const Json& config, const std::string& where);

/// A record's "params": the keys of the job's `sampling` with the same checks. Error(input), beginning with `where`,
/// names every wrong key.
SamplingRequest parse_params(const Json& params, const std::string& where);

}  // namespace tpinfer
