#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/kv_store.hpp"
#include "backend/factory.hpp"

namespace tpinfer::test {

/// How attention is computed; neither `block_size` nor `threads` may change a bit.
struct Setting {
  KernelSet set = KernelSet::scalar;
  DType dtype = DType::float32;
  AttentionHeads heads = {};
  std::int64_t window = 0;
  std::int64_t block_size = 16;
  int threads = 1;
  float scale = 0.2F;
  RopeTable rope = {};
  float soft_cap = 0.0F;
  std::vector<float> slopes = {};
};

/// Rows [first, first + count) of a sequence.
struct Chunk {
  std::int64_t sequence = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Queries, keys and values of one position: the same in every run.
inline std::vector<float> qkv_row(std::int64_t sequence, std::int64_t position, std::int64_t cols) {
  std::minstd_rand engine(static_cast<unsigned>(sequence * 1'000'003 + position * 7919 + 1));
  std::uniform_real_distribution<float> uniform(-2.0F, 2.0F);
  engine.discard(5);
  std::vector<float> row(static_cast<std::size_t>(cols));
  for (float& v : row) v = uniform(engine);
  return row;
}

/// A cache with `sequences` sequences of at most `context` positions in shuffled blocks, filled with NaN at first: what
/// a row does not see must not reach it.
class AttentionRun {
 public:
  AttentionRun(const Setting& setting, std::int64_t sequences, std::int64_t context)
      : setting_(setting),
        backend_(make_cpu_backend(setting.set, setting.threads)),
        width_((context + setting.block_size - 1) / setting.block_size),
        table_(static_cast<std::size_t>(sequences * width_)) {
    const KvSpec spec{.layers = 2,
                      .kv_heads = setting.heads.kv_heads,
                      .head_dim = setting.heads.head_dim,
                      .block_size = setting.block_size,
                      .blocks = sequences * width_,
                      .dtype = setting.dtype};
    kv_ = backend_->create_kv_store(spec);
    auto& store = dynamic_cast<CpuKvStore&>(*kv_);
    std::memset(store.layer(0), 0xff, store.bytes());
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(7));
  }

  /// Stores the chunks' K and V and computes their rows, in layer 1.
  void step(const std::vector<Chunk>& chunks) {
    collect(chunks);
    const StepBatch batch{.rows = static_cast<std::int64_t>(positions_.size()),
                          .positions = positions_.data(),
                          .slots = slots_.data(),
                          .sequences = static_cast<std::int64_t>(chunks.size()),
                          .row_begin = row_begin_.data(),
                          .block_table = step_table_.data(),
                          .table_width = width_};
    const AttentionHeads& heads = setting_.heads;
    const DType type = backend_->activation_dtype(setting_.dtype);
    const std::int64_t cols = heads.q_heads * heads.head_dim;
    const std::size_t row_bytes = static_cast<std::size_t>(cols) * dtype_size(type);
    std::vector<std::byte> q(row_bytes * positions_.size());
    std::vector<std::byte> out(q.size());
    const Tensor q_tensor{q.data(), type, batch.rows, cols};
    const Tensor out_tensor{out.data(), type, batch.rows, cols};
    backend_->rotate_and_store({qkv_.data(), DType::float32, batch.rows, heads.qkv_cols()}, heads, setting_.rope, batch,
                               *kv_, 1, q_tensor);
    const AttentionParams params{.scale = setting_.scale,
                                 .window = setting_.window,
                                 .soft_cap = setting_.soft_cap,
                                 .slopes = setting_.slopes.empty() ? nullptr : setting_.slopes.data()};
    backend_->attention(q_tensor, heads, params, batch, *kv_, 1, out_tensor);
    std::size_t row = 0;
    for (const Chunk& chunk : chunks) {
      for (std::int64_t p = chunk.first; p < chunk.first + chunk.count; ++p, ++row) {
        const auto begin = out.begin() + static_cast<std::ptrdiff_t>(row * row_bytes);
        results_[{chunk.sequence, p}].assign(begin, begin + static_cast<std::ptrdiff_t>(row_bytes));
      }
    }
  }

  /// All of a sequence in chunks of `size` rows.
  void run_sequence(std::int64_t sequence, std::int64_t length, std::int64_t size) {
    for (std::int64_t p = 0; p < length; p += size) step({{sequence, p, std::min(size, length - p)}});
  }

  const std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::byte>>& results() const { return results_; }
  float at(std::int64_t sequence, std::int64_t position, std::int64_t col) const {
    return load_element(results_.at({sequence, position}).data(), backend_->activation_dtype(setting_.dtype),
                        static_cast<std::size_t>(col));
  }

 private:
  void collect(const std::vector<Chunk>& chunks) {
    qkv_.clear();
    positions_.clear();
    slots_.clear();
    step_table_.clear();
    row_begin_ = {0};
    for (const Chunk& chunk : chunks) {
      const auto* blocks = table_.data() + chunk.sequence * width_;
      step_table_.insert(step_table_.end(), blocks, blocks + width_);
      for (std::int64_t p = chunk.first; p < chunk.first + chunk.count; ++p) {
        const auto row = qkv_row(chunk.sequence, p, setting_.heads.qkv_cols());
        qkv_.insert(qkv_.end(), row.begin(), row.end());
        positions_.push_back(static_cast<std::int32_t>(p));
        const std::int64_t slot = blocks[p / setting_.block_size] * setting_.block_size + p % setting_.block_size;
        slots_.push_back(static_cast<std::int32_t>(slot));
      }
      row_begin_.push_back(static_cast<std::int32_t>(positions_.size()));
    }
  }

  Setting setting_;
  std::unique_ptr<CpuBackend> backend_;
  std::unique_ptr<KvStore> kv_;
  std::int64_t width_;
  std::vector<std::int32_t> table_;  ///< [sequences, width_]
  std::vector<float> qkv_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> slots_;
  std::vector<std::int32_t> row_begin_;
  std::vector<std::int32_t> step_table_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::byte>> results_;
};

}  // namespace tpinfer::test
