// What a plan says of the CPU backend's memory, beside what the backend takes.
#include <gtest/gtest.h>

#include <numeric>

#include "backend/cpu/attention.hpp"
#include "backend/cpu/cpu_sizes.hpp"
#include "backend/cpu/thread_team.hpp"

namespace tpinfer {
namespace {

TEST(CpuSizes, CachesHaveTheBytesOfThePlan) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16})
    for (const std::int64_t head_dim : {1, 7, 16, 20, 64, 80, 128}) {
      const KvSpec spec{
          .layers = 3, .kv_heads = 2, .head_dim = head_dim, .block_size = 32, .blocks = 5, .dtype = dtype};
      const CpuKvStore store(spec);
      const std::uint64_t planned = 5 * cpu_kv_block_bytes(spec);
      EXPECT_EQ(planned, static_cast<std::uint64_t>(store.layout().layer_bytes * spec.layers));
      EXPECT_GE(store.bytes(), planned);
      EXPECT_LT(store.bytes(), planned + 4096);  // whole pages
      if (head_dim % 16 == 0)
        EXPECT_EQ(planned, 5 * spec.bytes_per_block());
      else
        EXPECT_GT(planned, 5 * spec.bytes_per_block());
    }
}

struct Rows {
  std::int64_t context = 0;
  std::int64_t rows = 0;  ///< the last ones
};

/// Working memory after one step of these sequences.
std::uint64_t bytes_after(const AttentionHeads& heads, const std::vector<Rows>& sequences, ThreadTeam& team) {
  std::int64_t blocks = 0;
  for (const Rows& s : sequences) blocks = std::max(blocks, (s.context + 15) / 16);
  const CpuKvStore kv({.layers = 1, .kv_heads = heads.kv_heads, .head_dim = heads.head_dim, .blocks = blocks});
  std::vector<std::int32_t> positions, row_begin{0}, table;
  for (const Rows& s : sequences) {
    for (std::int64_t r = s.context - s.rows; r < s.context; ++r) positions.push_back(static_cast<std::int32_t>(r));
    row_begin.push_back(static_cast<std::int32_t>(positions.size()));
    for (std::int64_t b = 0; b < blocks; ++b) table.push_back(static_cast<std::int32_t>(b));
  }
  const std::int64_t cols = heads.q_heads * heads.head_dim;
  std::vector<float> q(positions.size() * static_cast<std::size_t>(cols));
  std::vector<float> out(q.size());
  const StepBatch batch{.rows = std::ssize(positions),
                        .positions = positions.data(),
                        .sequences = std::ssize(sequences),
                        .row_begin = row_begin.data(),
                        .block_table = table.data(),
                        .table_width = blocks};
  CpuAttention attention(kernels_of(best_kernel_set()), team);
  attention.run({q.data(), DType::float32, batch.rows, cols}, heads, {}, batch, kv, 0,
                {out.data(), DType::float32, batch.rows, cols});
  return attention.bytes();
}

TEST(CpuSizes, AttentionTakesNoMoreThanPlanned) {
  for (const int threads : {1, 2, 4}) {
    ThreadTeam team(threads);
    for (const AttentionHeads heads : {AttentionHeads{8, 2, 64}, {6, 6, 20}, {70, 1, 16}, {4, 1, 128}})
      for (const std::int64_t context : {100, 3000}) {
        const std::uint64_t planned =
            cpu_attention_bytes({.heads = heads, .most_context = context, .threads = threads});
        for (const std::int64_t rows : {1, 5, 40})
          EXPECT_GE(planned, bytes_after(heads, std::vector<Rows>(3, {context, rows}), team))
              << threads << " threads, context " << context;
      }
  }
  EXPECT_EQ(cpu_attention_bytes({.heads = {0, 0, 64}, .most_context = 100, .threads = 2}), 0U);  // a rank without heads
}

/// Long sequences, each of them one item of full size that is cut, beside many rows that see little.
TEST(CpuSizes, AttentionComesToTakeAllThatIsPlanned) {
  constexpr AttentionHeads kHeads{4, 1, 128};
  for (const int threads : {2, 4}) {
    ThreadTeam team(threads);
    std::vector<Rows> sequences(static_cast<std::size_t>(2 * threads - 1), {20000, 16});
    sequences.push_back({256, 256});
    EXPECT_EQ(bytes_after(kHeads, sequences, team),
              cpu_attention_bytes({.heads = kHeads, .most_context = 20000, .threads = threads}));
  }
}

TEST(CpuSizes, EveryThreadCounts) {
  const CpuWork one{.heads = {8, 2, 64}, .most_context = 1000, .widest_inputs = 11008};
  CpuWork four = one;
  four.threads = 4;
  CpuWork mixture = one;
  mixture.mixture = true;
  EXPECT_GE(cpu_working_bytes(four), 3 * cpu_working_bytes(one));
  EXPECT_GT(cpu_working_bytes(mixture), cpu_working_bytes(one));
  EXPECT_GE(cpu_working_bytes(one), std::uint64_t{24} * 11008 * 4);  // two tiles of widened inputs
}

}  // namespace
}  // namespace tpinfer
