#include "runtime/logit_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace tpinfer {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

using Ids = std::span<const std::int32_t>;

// Parameters beyond all measure may make infinity less infinity or zero times infinity: that bans the id.
void set(float& logit, float value) { logit = std::isnan(value) ? kBanned : value; }

/// Rules change the logits themselves. Ids lie in the vocabulary.
class Logits {
 public:
  explicit Logits(std::vector<float>& logits) : logits_(logits) {}
  std::size_t size() const { return logits_.size(); }
  void add(std::int32_t id, float bias) { set(at(id), at(id) + bias); }
  void penalise(std::int32_t id, float factor) { set(at(id), at(id) > 0 ? at(id) / factor : at(id) * factor); }
  void subtract(std::int32_t id, float frequency, float presence) { set(at(id), at(id) - frequency - presence); }
  void ban(std::int32_t id) { at(id) = kBanned; }

 private:
  float& at(std::int32_t id) { return logits_[static_cast<std::size_t>(id)]; }
  std::vector<float>& logits_;
};

/// Rules become a list of what a device is to do: LogitEdit has them in their order.
class Edits {
 public:
  explicit Edits(std::size_t vocab) : vocab_(vocab) {}
  std::size_t size() const { return vocab_; }
  void add(std::int32_t id, float bias) { at(id).bias = bias; }
  void penalise(std::int32_t id, float factor) { at(id).factor = factor; }
  void subtract(std::int32_t id, float frequency, float presence) {
    at(id).frequency = frequency;
    at(id).presence = presence;
  }
  void ban(std::int32_t id) { at(id).banned = 1; }
  void append_to(std::vector<LogitEdit>& list) const {
    for (const auto& [id, edit] : edits_) list.push_back(edit);
  }

 private:
  LogitEdit& at(std::int32_t id) {
    LogitEdit& edit = edits_[id];
    edit.id = id;
    return edit;
  }
  std::size_t vocab_;
  std::map<std::int32_t, LogitEdit> edits_;
};

template <class To>
void ban(To& to, std::int32_t id) {
  if (id >= 0 && static_cast<std::size_t>(id) < to.size()) to.ban(id);
}

template <class To>
void add_bias(To& to, const LogitBias& bias) {
  for (const auto& [id, value] : bias)
    if (id >= 0 && static_cast<std::size_t>(id) < to.size())
      to.add(static_cast<std::int32_t>(id), static_cast<float>(value));
}

template <class To>
void penalise_repetition(To& to, double penalty, Ids tokens) {
  if (penalty == 1.0) return;
  for (const std::int32_t id : std::set<std::int32_t>(tokens.begin(), tokens.end()))
    to.penalise(id, static_cast<float>(penalty));
}

template <class To>
void penalise_output(To& to, const SamplingParams& params, Ids output) {
  if (params.frequency_penalty == 0.0 && params.presence_penalty == 0.0) return;
  std::map<std::int32_t, std::int64_t> counts;
  for (const std::int32_t id : output) ++counts[id];
  for (const auto& [id, count] : counts)
    to.subtract(id, static_cast<float>(params.frequency_penalty * static_cast<double>(count)),
                static_cast<float>(params.presence_penalty));
}

// Bans what followed an earlier occurrence of the last n - 1 tokens.
template <class To>
void ban_repeated_ngrams(To& to, std::int64_t n, Ids tokens) {
  if (n <= 0 || static_cast<std::int64_t>(tokens.size()) + 1 < n) return;
  const auto length = static_cast<std::size_t>(n - 1);
  const Ids last = tokens.last(length);
  for (std::size_t at = 0; at + length < tokens.size(); ++at)
    if (std::ranges::equal(tokens.subspan(at, length), last)) ban(to, tokens[at + length]);
}

// Bans the last id of a word whose other ids end the sequence.
template <class To>
void ban_words(To& to, std::span<const std::vector<std::int32_t>> words, Ids tokens) {
  for (const std::vector<std::int32_t>& word : words) {
    if (word.empty() || word.size() - 1 > tokens.size()) continue;
    if (std::ranges::equal(Ids(word).first(word.size() - 1), tokens.last(word.size() - 1))) ban(to, word.back());
  }
}

// All rules but the one for ids that no token has.
template <class To>
void apply_rules(To& to, const SamplingParams& params, const SampleContext& context) {
  const Ids output = context.tokens.subspan(static_cast<std::size_t>(context.prompt_tokens));
  add_bias(to, params.logit_bias);
  penalise_repetition(to, params.repetition_penalty, context.tokens);
  penalise_output(to, params, output);
  ban_repeated_ngrams(to, params.no_repeat_ngram_size, context.tokens);
  ban_words(to, context.bad_words, context.tokens);
  if (static_cast<std::int64_t>(output.size()) < params.min_new_tokens)
    for (const std::int32_t id : context.eos_ids) ban(to, id);
}

}  // namespace

void apply_logit_rules(std::vector<float>& logits, const SamplingParams& params, const SampleContext& context) {
  Logits to(logits);
  apply_rules(to, params, context);
  if (params.allow_unknown_ids) return;
  for (std::size_t id = 0; id < std::min(logits.size(), context.allowed_ids.size()); ++id)
    if (context.allowed_ids[id] == 0) logits[id] = kBanned;
}

void append_logit_edits(std::int64_t vocab, const SamplingParams& params, const SampleContext& context,
                        std::vector<LogitEdit>& edits) {
  Edits to(static_cast<std::size_t>(vocab));
  apply_rules(to, params, context);
  to.append_to(edits);
}

}  // namespace tpinfer
