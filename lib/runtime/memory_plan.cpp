#include "runtime/memory_plan.hpp"

#include <algorithm>

#include "backend/cpu/cpu_sizes.hpp"
#include "backend/cuda/gpu_scratch.hpp"
#include "comm/nccl.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

TransformerLimits limits_of(const ModelSpec& spec, const EngineJob& engine, const std::optional<PromptDemand>& demand) {
  TransformerLimits limits;
  limits.max_model_len = std::min(engine.max_model_len.value_or(spec.max_positions), spec.max_positions);
  limits.max_sequences = engine.max_num_seqs;
  limits.max_rows = engine.max_num_batched_tokens;
  if (demand && !demand->more) {
    limits.max_model_len = std::clamp<std::int64_t>(demand->longest, 1, limits.max_model_len);
    limits.max_sequences = std::clamp<std::int64_t>(demand->sequences, 1, limits.max_sequences);
    limits.max_rows = std::clamp<std::int64_t>(std::max(demand->prompt_tokens, demand->sequences), 1, limits.max_rows);
  }
  limits.logit_rows = logit_rows_for(spec.vocab, limits.max_rows);
  return limits;
}

// Blocks that can be of use: every sequence that may run at once, whole.
std::int64_t useful_blocks(const TransformerLimits& limits, std::int64_t block_size,
                           const std::optional<PromptDemand>& demand) {
  const std::int64_t blocks_each = (limits.max_model_len + block_size - 1) / block_size;
  const std::int64_t most = limits.max_sequences * blocks_each;
  if (!demand) return most;
  // those that follow are taken to be like the first, but for one of the greatest length
  if (demand->more)
    return std::min(most, limits.max_sequences * ((demand->longest + block_size - 1) / block_size) + blocks_each);
  return std::min(most,
                  demand->all_tokens / block_size + demand->sequences);  // each sequence wastes less than one block
}

std::int64_t blocks_within(std::uint64_t bytes, std::uint64_t per_block) {
  return static_cast<std::int64_t>(bytes / per_block);
}

// Rounded up, so that it really suffices.
std::string hint_for(const RankMemoryPlan& worst) {
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
  return fmt::format("set memory.cpu_memory_limit to {} MiB or more if the machine has it",
                     (worst.total() + kMebibyte - 1) / kMebibyte);
}

// What the operations of a CPU hold besides the buffers of the forward pass.
std::uint64_t working_bytes(const ModelSpec& spec, const RankShare& share, const TransformerLimits& limits, DType cache,
                            int threads) {
  if (threads == 0) return 0;
  std::int64_t widest = spec.hidden;
  for (const Range& range : {share.channels, share.expert_channels, share.shared_channels})
    widest = std::max(widest, range.count());
  return cpu_working_bytes({.heads = {share.query_heads.count(), share.kv_heads.count(), spec.head_dim},
                            .cache = cache,
                            .most_context = limits.max_model_len,
                            .widest_inputs = widest,
                            .mixture = spec.has_layers(true),
                            .threads = threads});
}

std::uint64_t cpu_workspace(const ModelSpec& spec, const ShardingPlan& plan, const RankShare& share,
                            const TransformerLimits& limits, const PlannedDevice& device) {
  return WorkspaceSizes(spec, share, limits).bytes(device.activation) +
         working_bytes(spec, share, limits, plan.compute_dtype, device.cpu_threads);
}

// In the memory of the GPU alone.
std::uint64_t gpu_workspace(const ModelSpec& spec, const ShardingPlan& plan, const RankShare& share,
                            const TransformerLimits& limits, const PlannedDevice& device, const EngineJob& engine) {
  const DType partials = engine.reproducible == Reproducible::full ? DType::float64 : DType::float32;
  const GpuScratchNeeds scratch{.max_rows = limits.max_rows,
                                .max_sequences = limits.max_sequences,
                                .max_context = limits.max_model_len,
                                .q_heads = share.query_heads.count(),
                                .head_dim = spec.head_dim,
                                .hidden = spec.hidden,
                                .expert_slots = spec.has_layers(true) ? expert_slots(spec) : 0,
                                .experts = spec.experts + 1,
                                .partials = partials};
  return WorkspaceSizes(spec, share, limits).gpu_bytes(device.activation) + gpu_scratch_bytes(scratch) +
         cuda_communicator_bytes(share.rank, plan.ranks, gpu_collectives(spec, plan, limits, partials));
}

std::uint64_t block_bytes(const KvSpec& spec, const PlannedDevice& device) {
  return device.cpu_threads > 0 ? cpu_kv_block_bytes(spec) : spec.bytes_per_block();
}

}  // namespace

KvSpec kv_spec(const ModelSpec& spec, const RankShare& share, DType dtype, std::int64_t block_size,
               std::int64_t blocks) {
  return {.layers = spec.layers,
          .kv_heads = share.kv_heads.count(),
          .head_dim = spec.head_dim,
          .block_size = block_size,
          .blocks = blocks,
          .dtype = dtype};
}

DeviceCommunicatorOptions gpu_collectives(const ModelSpec& spec, const ShardingPlan& plan,
                                          const TransformerLimits& limits, DType partials) {
  std::int64_t widest = 0;  // part of the vocabulary
  for (const PlannedRank& rank : plan.per_rank) widest = std::max(widest, rank.share.vocab.count());
  return {
      .most_partials = most_partials(spec, limits), .partials = partials, .most_gathered = limits.logit_rows * widest};
}

MemoryPlan plan_memory(const ModelSpec& spec, const ShardingPlan& plan, const EngineJob& engine,
                       const KvCacheLimit& cache, const PlannedDevice& device,
                       const std::vector<std::uint64_t>& budgets, const std::optional<PromptDemand>& demand) {
  MemoryPlan memory{
      .limits = limits_of(spec, engine, demand), .block_size = engine.kv_block_size, .ranks = {}, .hint = {}};
  const std::int64_t block = engine.kv_block_size;
  // with a cache of the job's own size a longer prompt fails alone; otherwise the longest one must find room
  const bool own_size = cache.tokens || cache.bytes;
  const std::int64_t least = demand && !own_size ? (memory.limits.max_model_len + block - 1) / block : 1;
  memory.kv_blocks = useful_blocks(memory.limits, block, demand);
  if (cache.tokens) memory.kv_blocks = std::min(memory.kv_blocks, static_cast<std::int64_t>(*cache.tokens) / block);
  std::int64_t wanted = memory.kv_blocks;
  for (const PlannedRank& rank : plan.per_rank) {
    RankMemoryPlan& mine = memory.ranks.emplace_back();
    mine.weights = rank.weights_bytes;
    mine.workspace = device.cpu_threads > 0 ? cpu_workspace(spec, plan, rank.share, memory.limits, device)
                                            : gpu_workspace(spec, plan, rank.share, memory.limits, device, engine);
    if (device.cpu_threads > 0 && demand && rank.share.rank == 0) mine.workspace += demand->answer_bytes;
    mine.budget = budgets[static_cast<std::size_t>(rank.share.rank)];
    const std::uint64_t per_block = block_bytes(kv_spec(spec, rank.share, plan.compute_dtype, block, 1), device);
    if (cache.bytes) wanted = std::min(wanted, blocks_within(*cache.bytes, per_block));
    const std::uint64_t fixed = mine.weights + mine.workspace;
    memory.kv_blocks =
        std::min(memory.kv_blocks, blocks_within(mine.budget > fixed ? mine.budget - fixed : 0, per_block));
  }
  if (own_size) memory.wanted_blocks = wanted;
  memory.kv_blocks = std::max(std::min(memory.kv_blocks, wanted), least);
  memory.fits = true;
  for (const PlannedRank& rank : plan.per_rank) {
    RankMemoryPlan& mine = memory.ranks[static_cast<std::size_t>(rank.share.rank)];
    mine.kv_cache = static_cast<std::uint64_t>(memory.kv_blocks) *
                    block_bytes(kv_spec(spec, rank.share, plan.compute_dtype, block, 1), device);
    mine.fits = mine.total() <= mine.budget;
    memory.fits = memory.fits && mine.fits;
  }
  if (memory.fits) return memory;
  const auto worst = std::ranges::max_element(memory.ranks, {}, [](const RankMemoryPlan& r) {
    return r.fits ? std::int64_t{-1} : static_cast<std::int64_t>(r.total() - std::min(r.total(), r.budget));
  });
  memory.hint = hint_for(*worst);
  return memory;
}

}  // namespace tpinfer
