#include "runtime/memory_plan.hpp"

#include <gtest/gtest.h>

#include "core/units.hpp"
#include "shard/sparse_model.hpp"

namespace tpinfer {
namespace {

using test_files::mentions;
constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

// 8 query heads in 2 groups on 3 ranks: two ranks share a KV head, nothing is even.
struct Case {
  explicit Case(int ranks = 3, DType dtype = DType::float32, const std::string& changes = "{}")
      : spec(spec_with(changes)) {
    const Claims claims = complete_claims(spec, dtype, stored);
    plan = make_sharding_plan(spec, Checkpoint(), claims, ranks, dtype);
    engine.max_num_seqs = 5;
    engine.max_num_batched_tokens = 64;
    engine.max_model_len = 100;
  }
  MemoryPlan with(std::uint64_t budget) const { return with_each(std::vector(plan.per_rank.size(), budget)); }
  MemoryPlan with_each(const std::vector<std::uint64_t>& budgets, int cpu_threads = 0) const {
    return plan_memory(spec, plan, engine, cache, {.activation = plan.compute_dtype, .cpu_threads = cpu_threads},
                       budgets, demand);
  }
  std::uint64_t block_bytes(std::size_t r) const {  // K and V of every layer
    return static_cast<std::uint64_t>(2 * spec.layers * plan.per_rank[r].share.kv_heads.count() * spec.head_dim *
                                      engine.kv_block_size) *
           dtype_size(plan.compute_dtype);
  }
  ModelSpec spec;
  std::vector<TensorInfo> stored;
  ShardingPlan plan;
  EngineJob engine;
  KvCacheLimit cache;
  std::optional<PromptDemand> demand;
};

TEST(MemoryPlan, NumbersAddUp) {
  const Case c;
  const MemoryPlan memory = c.with(kPlenty);
  EXPECT_TRUE(memory.fits);
  EXPECT_EQ(memory.hint, "");
  EXPECT_EQ(memory.kv_blocks, 5 * 7);  // five sequences of 100 tokens, 7 blocks of 16 each
  EXPECT_EQ(memory.kv_tokens(), 560);
  ASSERT_EQ(memory.ranks.size(), 3U);
  for (std::size_t r = 0; r < 3; ++r) {
    const RankMemoryPlan& rank = memory.ranks[r];
    EXPECT_EQ(rank.weights, c.plan.per_rank[r].weights_bytes);
    EXPECT_EQ(rank.kv_cache, 35 * c.block_bytes(r));
    const WorkspaceSizes buffers(c.spec, c.plan.per_rank[r].share, memory.limits);
    EXPECT_GE(rank.workspace, buffers.gpu_bytes(DType::float32));
    // on the CPU also what the operations hold besides: for a model this small below 8 MiB
    const std::uint64_t on_cpu = c.with_each(std::vector(3, kPlenty), 1).ranks[r].workspace;
    EXPECT_GT(on_cpu, buffers.bytes(DType::float32));
    EXPECT_LT(on_cpu, buffers.bytes(DType::float32) + (std::uint64_t{8} << 20));
    EXPECT_EQ(rank.total(), rank.weights + rank.kv_cache + rank.workspace);
    EXPECT_EQ(rank.budget, kPlenty);
    EXPECT_TRUE(rank.fits);
  }
  EXPECT_GT(memory.ranks[0].workspace, memory.ranks[1].workspace);  // rank 0 gathers the logits
}

TEST(MemoryPlan, TheCacheGetsWhatIsLeft) {
  const Case c(1);
  const RankMemoryPlan full = c.with(kPlenty).ranks[0];
  const std::uint64_t fixed = full.weights + full.workspace;
  for (const std::uint64_t blocks : {1U, 7U, 34U}) {
    const std::uint64_t exact = fixed + blocks * c.block_bytes(0);
    EXPECT_EQ(c.with(exact).kv_blocks, static_cast<std::int64_t>(blocks));
    EXPECT_TRUE(c.with(exact).fits);
    EXPECT_EQ(c.with(exact).ranks[0].total(), exact);
    EXPECT_EQ(c.with(exact + c.block_bytes(0) - 1).kv_blocks, static_cast<std::int64_t>(blocks));
    EXPECT_EQ(c.with(exact - 1).kv_blocks, std::max<std::int64_t>(1, static_cast<std::int64_t>(blocks) - 1));
  }
  EXPECT_FALSE(c.with(fixed + c.block_bytes(0) - 1).fits);
  EXPECT_FALSE(c.with(0).fits);
}

TEST(MemoryPlan, APoorRankLimitsAll) {
  const Case c(3);
  const MemoryPlan full = c.with(kPlenty);
  std::vector<std::uint64_t> budgets(3, kPlenty);
  budgets[1] = full.ranks[1].weights + full.ranks[1].workspace + 4 * c.block_bytes(1);
  const MemoryPlan memory = c.with_each(budgets);
  EXPECT_TRUE(memory.fits);
  EXPECT_EQ(memory.kv_blocks, 4);
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(memory.ranks[r].kv_cache, 4 * c.block_bytes(r));
  budgets[1] -= 4 * c.block_bytes(1);
  EXPECT_FALSE(c.with_each(budgets).fits);
  EXPECT_TRUE(c.with_each(budgets).ranks[0].fits);
  EXPECT_FALSE(c.with_each(budgets).ranks[1].fits);
}

TEST(MemoryPlan, LimitsOfTheJob) {
  Case c(2);
  c.cache.tokens = 100;
  EXPECT_EQ(c.with(kPlenty).kv_blocks, 6);  // whole blocks
  c.cache = {.bytes = 9 * c.block_bytes(0) + 1, .tokens = {}};
  EXPECT_EQ(c.with(kPlenty).kv_blocks, 9);
  c.cache.bytes = kPlenty;
  EXPECT_EQ(c.with(kPlenty).kv_blocks, 35);  // more would be of no use
  c.cache = {};
  c.engine.kv_block_size = 32;
  EXPECT_EQ(c.with(kPlenty).kv_blocks, 5 * 4);
}

TEST(MemoryPlan, PromptsSizeBuffersAndCache) {
  Case c(1);
  c.demand = PromptDemand{.sequences = 3, .longest = 40, .all_tokens = 80, .prompt_tokens = 50};
  const MemoryPlan memory = c.with(kPlenty);
  EXPECT_EQ(memory.limits.max_model_len, 40);
  EXPECT_EQ(memory.limits.max_sequences, 3);
  EXPECT_EQ(memory.limits.max_rows, 50);
  EXPECT_EQ(memory.kv_blocks, 8);  // 80 tokens are five blocks; each of three sequences may waste most of one
  const std::uint64_t fixed = memory.ranks[0].weights + memory.ranks[0].workspace;
  const std::uint64_t least = fixed + 3 * c.block_bytes(0);  // the longest needs 3 blocks
  EXPECT_TRUE(c.with(least).fits);
  EXPECT_EQ(c.with(least).kv_blocks, 3);
  EXPECT_FALSE(c.with(least - 1).fits);
  c.demand = PromptDemand{.sequences = 1000, .longest = 5000, .all_tokens = 900000, .prompt_tokens = 90000};
  const MemoryPlan most = c.with(kPlenty);  // the engine's own limits hold
  EXPECT_EQ(most.limits.max_model_len, 100);
  EXPECT_EQ(most.limits.max_sequences, 5);
  EXPECT_EQ(most.limits.max_rows, 64);
  EXPECT_EQ(most.kv_blocks, 35);
}

TEST(MemoryPlan, TheHintHelps) {
  for (const std::int64_t hidden : {64, 96, 128, 160, 416}) {  // totals that round up and down
    Case c(2, DType::float32, fmt::format(R"({{"hidden_size": {}}})", hidden));
    c.demand = PromptDemand{.sequences = 3, .longest = 40, .all_tokens = 80, .prompt_tokens = 50};
    const MemoryPlan memory = c.with(1000);
    ASSERT_FALSE(memory.fits);
    EXPECT_TRUE(mentions(memory.hint, {"memory.cpu_memory_limit to ", " or more"}));
    const std::size_t at = memory.hint.find("limit to ") + 9;
    const auto size = parse_size(memory.hint.substr(at, memory.hint.find(" or more") - at));
    ASSERT_TRUE(size) << memory.hint;
    EXPECT_TRUE(c.with(*size).fits) << memory.hint;
    EXPECT_LE(*size, std::max(memory.ranks[0].total(), memory.ranks[1].total()) + (2U << 20)) << memory.hint;
  }
}

}  // namespace
}  // namespace tpinfer
