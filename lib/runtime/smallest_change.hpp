#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/memory_plan.hpp"
#include "runtime/model_folder.hpp"

namespace tpinfer {

/// All that a memory plan depends on besides the model and the number of ranks.
struct PlanTerms {
  EngineJob engine;
  KvCacheLimit kv_cache;
  DType compute_dtype = DType::float32;
  Device device = Device::cpu;                                   ///< cpu or cuda
  int threads = 0;                                               ///< of a rank on the CPU; 0: its share of the cores
  std::function<std::vector<std::uint64_t>(int ranks)> budgets;  ///< bytes that each of so many ranks may use
  std::optional<PromptDemand> demand;
};

/// Memory of `plan`'s ranks under these terms.
MemoryPlan plan_memory(const ModelSpec& spec, const ShardingPlan& plan, const PlanTerms& terms);

/// The smallest change with which `ranks` ranks that do not fit would: the first of more ranks, smaller engine limits,
/// a shorter max_model_len, a narrower dtype, two of these together that fits when planned anew. As a command for
/// people: "use 6 ranks", "set engine.max_num_batched_tokens: 512", "set model.dtype: bfloat16 and use 3 ranks". When
/// nothing helps, the memory that each rank needs.
std::string smallest_change(const ModelFolder& model, const PlanTerms& terms, int ranks);

}  // namespace tpinfer
