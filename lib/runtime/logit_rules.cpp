#include "runtime/logit_rules.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace tpinfer {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

using Ids = std::span<const std::int32_t>;

void ban(std::vector<float>& logits, std::int32_t id) {
  if (id >= 0 && static_cast<std::size_t>(id) < logits.size()) logits[static_cast<std::size_t>(id)] = kBanned;
}

void add_bias(std::vector<float>& logits, const LogitBias& bias) {
  for (const auto& [id, value] : bias)
    if (id >= 0 && static_cast<std::size_t>(id) < logits.size())
      logits[static_cast<std::size_t>(id)] += static_cast<float>(value);
}

void penalise_repetition(std::vector<float>& logits, double penalty, Ids tokens) {
  if (penalty == 1.0) return;
  const auto factor = static_cast<float>(penalty);
  for (const std::int32_t id : std::set<std::int32_t>(tokens.begin(), tokens.end())) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / factor : logit * factor;
  }
}

void penalise_output(std::vector<float>& logits, const SamplingParams& params, Ids output) {
  if (params.frequency_penalty == 0.0 && params.presence_penalty == 0.0) return;
  std::map<std::int32_t, std::int64_t> counts;
  for (const std::int32_t id : output) ++counts[id];
  for (const auto& [id, count] : counts)
    logits[static_cast<std::size_t>(id)] -=
        static_cast<float>(params.frequency_penalty * static_cast<double>(count) + params.presence_penalty);
}

// Bans what followed an earlier occurrence of the last n - 1 tokens.
void ban_repeated_ngrams(std::vector<float>& logits, std::int64_t n, Ids tokens) {
  if (n <= 0 || static_cast<std::int64_t>(tokens.size()) + 1 < n) return;
  const auto length = static_cast<std::size_t>(n - 1);
  const Ids last = tokens.last(length);
  for (std::size_t at = 0; at + length < tokens.size(); ++at)
    if (std::ranges::equal(tokens.subspan(at, length), last)) ban(logits, tokens[at + length]);
}

// Bans the last id of a word whose other ids end the sequence.
void ban_words(std::vector<float>& logits, std::span<const std::vector<std::int32_t>> words, Ids tokens) {
  for (const std::vector<std::int32_t>& word : words) {
    if (word.empty() || word.size() - 1 > tokens.size()) continue;
    if (std::ranges::equal(Ids(word).first(word.size() - 1), tokens.last(word.size() - 1))) ban(logits, word.back());
  }
}

}  // namespace

void apply_logit_rules(std::vector<float>& logits, const SamplingParams& params, const SampleContext& context) {
  const Ids output = context.tokens.subspan(static_cast<std::size_t>(context.prompt_tokens));
  add_bias(logits, params.logit_bias);
  penalise_repetition(logits, params.repetition_penalty, context.tokens);
  penalise_output(logits, params, output);
  ban_repeated_ngrams(logits, params.no_repeat_ngram_size, context.tokens);
  ban_words(logits, context.bad_words, context.tokens);
  if (static_cast<std::int64_t>(output.size()) < params.min_new_tokens)
    for (const std::int32_t id : context.eos_ids) ban(logits, id);
  if (params.allow_unknown_ids) return;
  for (std::size_t id = 0; id < std::min(logits.size(), context.allowed_ids.size()); ++id)
    if (context.allowed_ids[id] == 0) logits[id] = kBanned;
}

}  // namespace tpinfer
