#include "runtime/logit_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/row_loops.hpp"

namespace tpinfer {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

using Ids = std::span<const std::int32_t>;

// Parameters beyond all measure may make infinity less infinity or zero times infinity: that bans the id.
void set(float& logit, float value) { logit = std::isnan(value) ? kBanned : value; }

/// Rules change the logits themselves. Ids lie in the vocabulary.
class Logits {
 public:
  explicit Logits(std::span<float> logits) : logits_(logits) {}
  std::size_t size() const { return logits_.size(); }
  void add(std::int32_t id, float bias) { set(at(id), at(id) + bias); }
  void penalise(std::int32_t id, float factor) { set(at(id), at(id) > 0 ? at(id) / factor : at(id) * factor); }
  void subtract(std::int32_t id, float frequency, float presence) { set(at(id), at(id) - frequency - presence); }
  void ban(std::int32_t id) { at(id) = kBanned; }

 private:
  float& at(std::int32_t id) { return logits_[static_cast<std::size_t>(id)]; }
  std::span<float> logits_;
};

/// Rules become a list of what a device is to do: LogitEdit has them in their order.
class Edits {
 public:
  /// They go to the end of `list`.
  Edits(std::size_t vocab, std::vector<LogitEdit>& list) : vocab_(vocab), list_(list), first_(list.size()) {}
  std::size_t size() const { return vocab_; }
  void add(std::int32_t id, float bias) { list_.push_back({.id = id, .bias = bias}); }
  void penalise(std::int32_t id, float factor) { list_.push_back({.id = id, .factor = factor}); }
  void subtract(std::int32_t id, float frequency, float presence) {
    list_.push_back({.id = id, .frequency = frequency, .presence = presence});
  }
  void ban(std::int32_t id) { list_.push_back({.id = id, .banned = 1}); }

  // One entry for each id. No two rules set the same field, but for bans, which may come several times.
  void join() {
    const auto begin = list_.begin() + static_cast<std::ptrdiff_t>(first_);
    std::sort(begin, list_.end(), [](const LogitEdit& a, const LogitEdit& b) { return a.id < b.id; });
    auto out = begin;
    for (auto in = begin; in != list_.end(); ++out) {
      LogitEdit all = *in;
      for (++in; in != list_.end() && in->id == all.id; ++in) {
        if (in->bias != 0.0F) all.bias = in->bias;
        if (in->factor != 1.0F) all.factor = in->factor;
        if (in->frequency != 0.0F) all.frequency = in->frequency;
        if (in->presence != 0.0F) all.presence = in->presence;
        all.banned |= in->banned;
      }
      *out = all;
    }
    list_.erase(out, list_.end());
  }

 private:
  std::size_t vocab_;
  std::vector<LogitEdit>& list_;
  std::size_t first_;
};

/// Calls each(id, how often) for the ids of `tokens` in ascending order.
template <class Each>
void count_ids(Ids tokens, std::vector<std::uint32_t>& memory, const Each& each) {
  memory.assign(tokens.begin(), tokens.end());
  std::ranges::sort(memory);
  for (auto at = memory.begin(); at != memory.end();) {
    const auto next = std::find_if(at, memory.end(), [&](std::uint32_t id) { return id != *at; });
    each(static_cast<std::int32_t>(*at), static_cast<std::int64_t>(next - at));
    at = next;
  }
}

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
void penalise_repetition(To& to, double penalty, Ids tokens, std::vector<std::uint32_t>& memory) {
  if (penalty == 1.0) return;
  count_ids(tokens, memory, [&](std::int32_t id, std::int64_t) { to.penalise(id, static_cast<float>(penalty)); });
}

template <class To>
void penalise_output(To& to, const SamplingParams& params, Ids output, std::vector<std::uint32_t>& memory) {
  if (params.frequency_penalty == 0.0 && params.presence_penalty == 0.0) return;
  count_ids(output, memory, [&](std::int32_t id, std::int64_t count) {
    to.subtract(id, static_cast<float>(params.frequency_penalty * static_cast<double>(count)),
                static_cast<float>(params.presence_penalty));
  });
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
void apply_rules(To& to, const SamplingParams& params, const SampleContext& context,
                 std::vector<std::uint32_t>& memory) {
  const Ids output = context.tokens.subspan(static_cast<std::size_t>(context.prompt_tokens));
  add_bias(to, params.logit_bias);
  penalise_repetition(to, params.repetition_penalty, context.tokens, memory);
  penalise_output(to, params, output, memory);
  ban_repeated_ngrams(to, params.no_repeat_ngram_size, context.tokens);
  ban_words(to, context.bad_words, context.tokens);
  if (static_cast<std::int64_t>(output.size()) < params.min_new_tokens)
    for (const std::int32_t id : context.eos_ids) ban(to, id);
}

}  // namespace

void apply_logit_rules(std::vector<float>& logits, const SamplingParams& params, const SampleContext& context,
                       std::vector<std::uint32_t>& memory) {
  Logits to(logits);
  apply_rules(to, params, context, memory);
  if (!params.allow_unknown_ids) ban_unknown(logits, context.allowed_ids);
}

void append_logit_edits(std::int64_t vocab, const SamplingParams& params, const SampleContext& context,
                        std::vector<LogitEdit>& edits, std::vector<std::uint32_t>& memory) {
  Edits to(static_cast<std::size_t>(vocab), edits);
  apply_rules(to, params, context, memory);
  to.join();
}

void apply_logit_edits(std::span<float> logits, std::span<const LogitEdit> edits) {
  Logits to(logits);
  for (const LogitEdit& edit : edits) {
    if (edit.bias != 0.0F) to.add(edit.id, edit.bias);
    if (edit.factor != 1.0F) to.penalise(edit.id, edit.factor);
    if (edit.frequency != 0.0F || edit.presence != 0.0F) to.subtract(edit.id, edit.frequency, edit.presence);
    if (edit.banned != 0) to.ban(edit.id);
  }
}

}  // namespace tpinfer
