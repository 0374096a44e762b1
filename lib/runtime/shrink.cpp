#include "runtime/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tpinfer {
namespace {

constexpr std::int64_t kRowUnit = 64;               // steps in which engine.max_num_batched_tokens is lowered
constexpr std::int64_t kLengthUnits[] = {256, 16};  // and engine.max_model_len

class Shrinking {
 public:
  Shrinking(const ModelSpec& spec, const ShardingPlan& plan, const PlanTerms& terms)
      : spec_(spec), plan_(plan), terms_(terms) {}

  std::optional<EngineJob> find() const {
    if (auto engine = one_limit()) return engine;
    if (auto engine = both_limits(terms_.engine)) return engine;
    const std::int64_t longest = terms_.demand ? terms_.demand->longest_prompt : 0;
    if (auto engine = shorter(terms_.engine); engine && *engine->max_model_len > longest) return engine;
    EngineJob least = terms_.engine;
    least.max_num_seqs = 1;
    least.max_num_batched_tokens = std::min(kRowUnit, least.max_num_batched_tokens);
    const auto fitting = shorter(least);
    if (!fitting) return {};
    EngineJob wide = terms_.engine;
    wide.max_model_len = fitting->max_model_len;
    if (fits(wide)) return wide;
    const auto both = both_limits(wide);
    return both ? both : fitting;
  }

 private:
  bool fits(const EngineJob& engine) const {
    PlanTerms terms = terms_;
    terms.engine = engine;
    return plan_memory(spec_, plan_, terms).fits;
  }

  // The largest multiple of `unit` below `now` with which it fits, 0 for none; memory grows with every such limit.
  template <class Set>
  std::int64_t largest(EngineJob engine, std::int64_t now, std::int64_t unit, Set set) const {
    std::int64_t low = 0;
    std::int64_t high = (now + unit - 1) / unit;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      set(engine, middle * unit);
      (fits(engine) ? low : high) = middle;
    }
    return low * unit;
  }

  static void set_rows(EngineJob& engine, std::int64_t value) { engine.max_num_batched_tokens = value; }
  static void set_sequences(EngineJob& engine, std::int64_t value) { engine.max_num_seqs = value; }
  static void set_length(EngineJob& engine, std::int64_t value) { engine.max_model_len = value; }

  std::optional<EngineJob> one_limit() const {
    EngineJob engine = terms_.engine;
    const std::int64_t sequences = largest(engine, engine.max_num_seqs, 1, set_sequences);
    const std::int64_t rows = largest(engine, engine.max_num_batched_tokens, kRowUnit, set_rows);
    if (sequences == 0 && rows == 0) return {};
    if (sequences * engine.max_num_batched_tokens > rows * engine.max_num_seqs)
      set_sequences(engine, sequences);
    else
      set_rows(engine, rows);
    return engine;
  }

  std::optional<EngineJob> both_limits(EngineJob engine) const {
    while (engine.max_num_seqs > 1) {
      set_sequences(engine, engine.max_num_seqs / 2);
      if (fits(engine)) return engine;
      const std::int64_t rows = largest(engine, engine.max_num_batched_tokens, kRowUnit, set_rows);
      if (rows == 0) continue;
      set_rows(engine, rows);
      return engine;
    }
    return {};
  }

  std::optional<EngineJob> shorter(EngineJob engine) const {
    PlanTerms terms = terms_;
    terms.engine = engine;
    const std::int64_t now = plan_memory(spec_, plan_, terms).limits.max_model_len;
    for (const std::int64_t unit : kLengthUnits) {
      const std::int64_t length = largest(engine, now, unit, set_length);
      if (length == 0) continue;
      set_length(engine, length);
      return engine;
    }
    return {};
  }

  const ModelSpec& spec_;
  const ShardingPlan& plan_;
  const PlanTerms& terms_;
};

}  // namespace

std::optional<EngineJob> shrunk_engine(const ModelSpec& spec, const ShardingPlan& plan, const PlanTerms& terms) {
  return Shrinking(spec, plan, terms).find();
}

std::string engine_changes(const EngineJob& from, const EngineJob& to, std::int64_t max_positions) {
  std::string text;
  const auto tell = [&](const char* key, std::int64_t before, std::int64_t after) {
    if (before != after)
      text += fmt::format("{}engine.{} is {} instead of {}", text.empty() ? "" : ", ", key, after, before);
  };
  tell("max_num_seqs", from.max_num_seqs, to.max_num_seqs);
  tell("max_num_batched_tokens", from.max_num_batched_tokens, to.max_num_batched_tokens);
  tell("max_model_len", from.max_model_len.value_or(max_positions), to.max_model_len.value_or(max_positions));
  return text;
}

void shorten_requests(Preparation& p, std::int64_t most, bool skip) {
  std::erase_if(p.requests, [&](Request& request) {
    const auto tokens = static_cast<std::int64_t>(request.token_ids.size());
    const std::int64_t room = most - tokens;
    if (room >= std::min<std::int64_t>(request.most_new_tokens, 1)) {
      if (room < request.most_new_tokens) {
        request.most_new_tokens = room;
        request.at_limit = FinishReason::context;
      }
      return false;
    }
    PromptRow& row = p.prompts[static_cast<std::size_t>(request.prompt_index)];
    row.status = skip ? PromptStatus::skipped : PromptStatus::failed;
    row.error = fmt::format("the prompt has {} tokens, but memory is enough for {} with the answer (memory.on_no_fit)",
                            tokens, most);
    return true;
  });
}

}  // namespace tpinfer
