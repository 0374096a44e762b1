#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "comm/device_communicator.hpp"
#include "job/job.hpp"
#include "runtime/transformer.hpp"
#include "shard/sharding_plan.hpp"

namespace tpinfer {

/// Predicted memory of one rank, bytes.
struct RankMemoryPlan {
  std::uint64_t weights = 0;
  std::uint64_t kv_cache = 0;
  std::uint64_t workspace = 0;
  std::uint64_t budget = 0;
  bool fits = false;
  std::uint64_t total() const noexcept { return weights + kv_cache + workspace; }
};

/// What the prompts ask of the cache; unknown when a plan is made without them.
struct PromptDemand {
  std::int64_t sequences = 0;      ///< samples of all prompts
  std::int64_t longest = 0;        ///< tokens of the longest sequence, prompt and new
  std::int64_t all_tokens = 0;     ///< of all sequences together
  std::int64_t prompt_tokens = 0;  ///< of all of their prompts together
  std::int64_t longest_prompt = 0;
  std::uint64_t answer_bytes = 0;  ///< token ids and log probabilities that rank 0 keeps until they are written
  bool more = false;               ///< others follow, of any length: these are the first of many
};

/// What a plan needs to know of the device that runs it.
struct PlannedDevice {
  DType activation = DType::float32;  ///< of product inputs
  int cpu_threads = 0;                ///< of a rank; 0: not a CPU
};

struct MemoryPlan {
  TransformerLimits limits;
  std::int64_t kv_blocks = 0;      ///< the same on every rank
  std::int64_t wanted_blocks = 0;  ///< of a cache of the job's own size: as many as can be of use; else 0
  std::int64_t block_size = 16;
  std::vector<RankMemoryPlan> ranks;
  bool fits = false;
  std::string hint;  ///< what would make it fit, when it does not (see smallest_change)

  std::int64_t kv_tokens() const noexcept { return kv_blocks * block_size; }
};

/// KV cache shape of one rank.
KvSpec kv_spec(const ModelSpec& spec, const RankShare& share, DType dtype, std::int64_t block_size,
               std::int64_t blocks);

/// Sizes that the collectives between GPUs are made for; transport and timeout stay at their defaults.
DeviceCommunicatorOptions gpu_collectives(const ModelSpec& spec, const ShardingPlan& plan,
                                          const TransformerLimits& limits, DType partials);

/// Sizes buffers and cache for each rank's budget. The cache gets what weights and workspace leave, but no more than
/// `demand` (or, without it, max_num_seqs sequences of max_model_len) can use; a job needs room for one sequence at
/// least. Pure; no I/O.
MemoryPlan plan_memory(const ModelSpec& spec, const ShardingPlan& plan, const EngineJob& engine,
                       const KvCacheLimit& cache, const PlannedDevice& device,
                       const std::vector<std::uint64_t>& budgets, const std::optional<PromptDemand>& demand);

}  // namespace tpinfer
