// Attention on a GPU: against the CPU's, and its bits over chunks, batches and blocks side by side.
#include <algorithm>
#include <numeric>

#include "device_side.hpp"

namespace tpinfer::test {
namespace {

struct Setting {
  DType dtype = DType::bfloat16;
  AttentionHeads heads = {};
  std::int64_t window = 0;
  std::int64_t block_size = 16;
  float soft_cap = 0.0F;
  bool sloped = false;
};

/// Rows [first, first + count) of a sequence.
struct Chunk {
  std::int64_t sequence = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// A cache of shuffled blocks on one side, and steps over it. Block 0 belongs to nobody: what is not seen must not be
/// read, so it is filled with NaN at first, as are all the others.
class CachedSequences {
 public:
  CachedSequences(const Side& side, const Setting& setting, std::int64_t sequences, std::int64_t context)
      : side_(side),
        setting_(setting),
        width_((context + setting.block_size - 1) / setting.block_size),
        table_(static_cast<std::size_t>(sequences * width_)) {
    kv_ = side->create_kv_store({.layers = 2,
                                 .kv_heads = setting.heads.kv_heads,
                                 .head_dim = setting.heads.head_dim,
                                 .block_size = setting.block_size,
                                 .blocks = sequences * width_,
                                 .dtype = setting.dtype});
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(7));
    poison();
  }

  /// Stores the chunks' K and V and gives their rows of attention, in layer 1.
  std::vector<float> step(const std::vector<Chunk>& chunks, bool only_store = false) {
    std::vector<float> qkv;
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> slots;
    std::vector<std::int32_t> row_begin{0};
    std::vector<std::int32_t> tables;
    StepBatch batch;
    for (const Chunk& chunk : chunks) {
      for (std::int64_t p = chunk.first; p < chunk.first + chunk.count; ++p) {
        const std::vector<float> row = random_values(
            setting_.heads.qkv_cols(), static_cast<unsigned>(chunk.sequence * 100'003 + p + 1), DType::float32, 2.0F);
        qkv.insert(qkv.end(), row.begin(), row.end());
        positions.push_back(static_cast<std::int32_t>(p));
        slots.push_back(slot(chunk.sequence, p));
      }
      row_begin.push_back(static_cast<std::int32_t>(positions.size()));
      const auto table = table_.begin() + chunk.sequence * width_;
      tables.insert(tables.end(), table, table + width_);
      batch.max_rows = std::max(batch.max_rows, chunk.count);
      batch.max_context = std::max(batch.max_context, chunk.first + chunk.count);
    }
    return run(batch, qkv, positions, slots, row_begin, tables, only_store);
  }

 private:
  std::int32_t slot(std::int64_t sequence, std::int64_t position) const {
    const std::int32_t block = table_[static_cast<std::size_t>(sequence * width_ + position / setting_.block_size)];
    return static_cast<std::int32_t>(block * setting_.block_size + position % setting_.block_size);
  }

  std::vector<float> run(StepBatch batch, const std::vector<float>& qkv, const std::vector<std::int32_t>& positions,
                         const std::vector<std::int32_t>& slots, const std::vector<std::int32_t>& row_begin,
                         const std::vector<std::int32_t>& tables, bool only_store) {
    const AttentionHeads& heads = setting_.heads;
    const auto rows = static_cast<std::int64_t>(positions.size());
    const DeviceBuffer on_device[] = {side_.array(positions), side_.array(slots), side_.array(row_begin),
                                      side_.array(tables)};
    batch.rows = rows;
    batch.positions = on_device[0].as<std::int32_t>();
    batch.slots = on_device[1].as<std::int32_t>();
    batch.sequences = static_cast<std::int64_t>(row_begin.size()) - 1;
    batch.row_begin = on_device[2].as<std::int32_t>();
    batch.block_table = on_device[3].as<std::int32_t>();
    batch.table_width = width_;
    const DType type = side_.activation(setting_.dtype);
    const Held input = side_.tensor(qkv, DType::float32, rows, heads.qkv_cols());
    const Held q = side_.room(type, rows, heads.q_heads * heads.head_dim);
    const Held out = side_.room(type, rows, heads.q_heads * heads.head_dim);
    side_->rotate_and_store(input.tensor, heads, {}, batch, *kv_, 1, q.tensor);
    std::vector<float> slopes(static_cast<std::size_t>(heads.q_heads));
    for (std::size_t h = 0; h < slopes.size(); ++h) slopes[h] = 1.0F / static_cast<float>(4U << h % 8);
    const DeviceBuffer on_side = side_.array(slopes);
    const AttentionParams params{.scale = 0.3F,
                                 .window = setting_.window,
                                 .soft_cap = setting_.soft_cap,
                                 .slopes = setting_.sloped ? on_side.as<float>() : nullptr};
    if (!only_store) side_->attention(q.tensor, heads, params, batch, *kv_, 1, out.tensor);
    return side_.floats(out.tensor);
  }

  void poison() {
    const std::int64_t rows = kv_->spec().blocks * setting_.block_size;
    std::vector<float> nothing(static_cast<std::size_t>(rows * setting_.heads.qkv_cols()), std::nanf(""));
    std::vector<std::int32_t> slots(static_cast<std::size_t>(rows));
    std::iota(slots.begin(), slots.end(), 0);
    const std::vector<std::int32_t> zeros(slots.size());
    run({}, nothing, zeros, slots, {0, static_cast<std::int32_t>(rows)}, zeros, true);
  }

  const Side& side_;
  Setting setting_;
  std::int64_t width_;
  std::vector<std::int32_t> table_;
  std::unique_ptr<KvStore> kv_;
};

class CudaAttention : public OnDevice {};

TEST_F(CudaAttention, AgreesWithTheCpuForEveryTypeHeadAndWindow) {
  const Setting settings[] = {{DType::bfloat16, {4, 2, 16}, 0, 16},
                              {DType::float16, {6, 2, 40}, 0, 32},
                              {DType::bfloat16, {3, 3, 80}, 37, 16},
                              {DType::float16, {20, 1, 8}, 100, 64},
                              {DType::bfloat16, {2, 1, 136}, 0, 16},
                              {DType::float32, {4, 2, 16}, 0, 16},
                              {DType::float32, {3, 1, 7}, 50, 16},
                              {DType::bfloat16, {2, 2, 13}, 0, 16},
                              {DType::float16, {1, 1, 264}, 0, 16},
                              {DType::bfloat16, {6, 2, 16}, 0, 16, 0.0F, true},
                              {DType::float16, {4, 4, 24}, 50, 16, 2.0F, false},
                              {DType::float32, {6, 2, 12}, 0, 16, 1.5F, true}};
  for (const Setting& s : settings) {
    SCOPED_TRACE(testing::Message() << dtype_name(s.dtype) << " " << s.heads.q_heads << "/" << s.heads.kv_heads
                                    << " heads of " << s.heads.head_dim << ", window " << s.window);
    CachedSequences gpu_run(gpu(), s, 3, 300);
    CachedSequences cpu_run(cpu(), s, 3, 300);
    const float tolerance = s.dtype == DType::float32 ? 1e-5F : s.dtype == DType::float16 ? 4e-3F : 1e-2F;
    const std::vector<std::vector<Chunk>> steps = {
        {{0, 0, 5}, {1, 0, 290}}, {{0, 5, 1}, {1, 290, 1}, {2, 0, 1}}, {{2, 1, 30}, {1, 291, 4}}};
    for (const std::vector<Chunk>& step : steps) expect_close(gpu_run.step(step), cpu_run.step(step), tolerance, 1.0F);
  }
}

TEST_F(CudaAttention, ChunksBatchesAndBlocksSideBySideDoNotChangeABit) {
  const Setting settings[] = {{DType::bfloat16, {4, 2, 32}, 0, 16},
                              {DType::float16, {5, 1, 24}, 300, 32},
                              {DType::bfloat16, {2, 1, 160}, 0, 16},
                              {DType::float32, {2, 1, 12}, 0, 16},
                              {DType::bfloat16, {4, 2, 16}, 0, 16, 3.0F, true}};
  const std::int64_t context = 530;
  for (const Setting& s : settings) {
    SCOPED_TRACE(testing::Message() << dtype_name(s.dtype) << " of " << s.heads.head_dim << ", window " << s.window);
    const std::int64_t cols = s.heads.q_heads * s.heads.head_dim;
    CachedSequences whole(gpu(), s, 2, context);
    const std::vector<float> all = whole.step({{0, 0, context}});
    CachedSequences chunks(gpu(), s, 2, context);
    std::int64_t first = 0;
    for (const std::int64_t count : {1, 2, 250, 3, 8, 130}) {
      expect_rows(all, first, count, cols, chunks.step({{0, first, count}}));
      first += count;
    }
    // The rest one by one: alone, where blocks are computed side by side, and beside a long sequence, where not.
    for (; first < context - 130; ++first) chunks.step({{0, first, 1}}, true);
    for (; first < context - 126; ++first) expect_rows(all, first, 1, cols, chunks.step({{0, first, 1}}));
    for (; first < context - 122; ++first) {
      const std::vector<float> mixed = chunks.step({{1, (first - context + 126) * 40, 40}, {0, first, 1}});
      expect_rows(all, first, 1, cols, std::vector<float>(mixed.begin() + 40 * cols, mixed.end()));
    }
  }
}

}  // namespace
}  // namespace tpinfer::test
