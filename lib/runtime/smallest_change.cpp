#include "runtime/smallest_change.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/factory.hpp"
#include "core/units.hpp"
#include "runtime/rank_worker.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kRowUnit = 64;      // steps in which engine.max_num_batched_tokens is lowered
constexpr std::int64_t kLengthUnit = 256;  // and engine.max_model_len
constexpr int kMostRanksMore = 64;         // than asked for: further counts are not tried

/// Tries changes one after the other, each by a plan of its own.
class ChangeSearch {
 public:
  ChangeSearch(const ModelFolder& model, const PlanTerms& terms, int ranks)
      : model_(model), terms_(terms), ranks_(ranks) {}

  std::string find() {
    if (auto text = more_ranks(terms_)) return *text;
    use_ranks(terms_, ranks_);
    if (auto text = smaller_engine()) return *text;
    if (auto text = shorter_model_len()) return *text;
    for (const PlanTerms& narrow : narrower()) {
      const std::string change = fmt::format("set model.dtype: {}", dtype_name(narrow.compute_dtype));
      use_ranks(narrow, ranks_);
      if (fits(narrow)) return change;
    }
    for (const PlanTerms& narrow : narrower())
      if (auto text = more_ranks(narrow))
        return fmt::format("set model.dtype: {} and {}", dtype_name(narrow.compute_dtype), *text);
    if (auto text = more_ranks_and_fewer_rows()) return *text;
    return needed();
  }

 private:
  // Keeps the plan of so many ranks at hand: changes of the engine alone need no other.
  void use_ranks(const PlanTerms& terms, int ranks) {
    plan_ = make_sharding_plan(model_.spec, model_.checkpoint, model_.claims, ranks, terms.compute_dtype);
  }

  bool fits(const PlanTerms& terms) const { return plan_memory(model_.spec, plan_, terms).fits; }

  int most_ranks() const {
    return static_cast<int>(std::min<std::int64_t>(model_.spec.q_heads, ranks_ + kMostRanksMore));
  }

  // False where even weights that nobody holds twice would be too much: saves making the plan.
  bool weights_may_fit(const PlanTerms& terms, int ranks) const {
    const auto budgets = terms.budgets(ranks);
    return std::accumulate(budgets.begin(), budgets.end(), std::uint64_t{0}) >=
           model_.claims.parameters * dtype_size(terms.compute_dtype);
  }

  std::optional<std::string> more_ranks(const PlanTerms& terms) {
    for (int n = ranks_ + 1; n <= most_ranks(); ++n) {
      if (!weights_may_fit(terms, n)) continue;
      use_ranks(terms, n);
      if (fits(terms)) return fmt::format("use {} ranks", n);
    }
    return {};
  }

  // The largest multiple of `unit` below `now` with which the plan fits; memory grows with every such limit.
  template <class Change>
  std::int64_t largest_fitting(std::int64_t now, std::int64_t unit, Change change) const {
    std::int64_t low = 0;
    std::int64_t high = (now + unit - 1) / unit;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      PlanTerms terms = terms_;
      change(terms, middle * unit);
      (fits(terms) ? low : high) = middle;
    }
    return low * unit;
  }

  static void set_rows(PlanTerms& terms, std::int64_t value) { terms.engine.max_num_batched_tokens = value; }
  static void set_sequences(PlanTerms& terms, std::int64_t value) { terms.engine.max_num_seqs = value; }
  static void set_length(PlanTerms& terms, std::int64_t value) { terms.engine.max_model_len = value; }

  // Fewer sequences or fewer rows at a time, whichever keeps the larger share.
  std::optional<std::string> smaller_engine() const {
    const EngineJob& engine = terms_.engine;
    const std::int64_t sequences = largest_fitting(engine.max_num_seqs, 1, set_sequences);
    const std::int64_t rows = largest_fitting(engine.max_num_batched_tokens, kRowUnit, set_rows);
    if (sequences == 0 && rows == 0) return {};
    if (sequences * engine.max_num_batched_tokens > rows * engine.max_num_seqs)
      return fmt::format("set engine.max_num_seqs: {}", sequences);
    return fmt::format("set engine.max_num_batched_tokens: {}", rows);
  }

  // Never so short that a prompt that could run no longer can.
  std::optional<std::string> shorter_model_len() const {
    const std::int64_t now = plan_memory(model_.spec, plan_, terms_).limits.max_model_len;
    const std::int64_t length = largest_fitting(now, kLengthUnit, set_length);
    if (length == 0 || (terms_.demand && length <= terms_.demand->longest_prompt)) return {};
    return fmt::format("set engine.max_model_len: {}", length);
  }

  // These terms in the types of 16 bits, the checkpoint's own first.
  std::vector<PlanTerms> narrower() const {
    std::vector<PlanTerms> list;
    if (dtype_size(terms_.compute_dtype) <= 2) return list;
    std::vector<DType> types{DType::bfloat16};
    if (model_.claims.stored_dtype == DType::float16) types.insert(types.begin(), DType::float16);
    for (const DType type : types) {
      list.push_back(terms_);
      list.back().compute_dtype = type;
    }
    return list;
  }

  std::optional<std::string> more_ranks_and_fewer_rows() {
    for (int n = ranks_ + 1; n <= most_ranks(); ++n) {
      if (!weights_may_fit(terms_, n)) continue;
      use_ranks(terms_, n);
      if (const std::int64_t rows = largest_fitting(terms_.engine.max_num_batched_tokens, kRowUnit, set_rows))
        return fmt::format("use {} ranks and set engine.max_num_batched_tokens: {}", n, rows);
    }
    return {};
  }

  std::string needed() {
    use_ranks(terms_, ranks_);
    const MemoryPlan memory = plan_memory(model_.spec, plan_, terms_);
    if (terms_.device != Device::cuda) return memory.hint;
    std::uint64_t most = 0;
    for (const RankMemoryPlan& rank : memory.ranks) most = std::max(most, rank.total());
    return fmt::format("use GPUs of which a rank may take {}, or raise memory.gpu_memory_utilization",
                       format_bytes_binary(most));
  }

  const ModelFolder& model_;
  const PlanTerms& terms_;
  int ranks_;
  ShardingPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const ModelSpec& spec, const ShardingPlan& plan, const PlanTerms& terms) {
  PlannedDevice device{.activation = plan.compute_dtype};
  if (terms.device != Device::cuda)
    device = {cpu_activation_dtype(plan.compute_dtype),
              terms.threads > 0 ? terms.threads : default_threads(plan.ranks)};
  return plan_memory(spec, plan, terms.engine, terms.kv_cache, device, terms.budgets(plan.ranks), terms.demand);
}

std::string smallest_change(const ModelFolder& model, const PlanTerms& terms, int ranks) {
  return ChangeSearch(model, terms, ranks).find();
}

}  // namespace tpinfer
