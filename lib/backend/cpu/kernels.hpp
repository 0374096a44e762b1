#pragma once

#include "backend/cpu/kv_store.hpp"
#include "backend/factory.hpp"

namespace tpinfer {

/// Query vectors that the attention kernel takes through a block of positions together.
inline constexpr int kQueryGroup = 8;

/// Rows [begin, end) of a norm.
struct NormWork {
  const float* x = nullptr;
  void* out = nullptr;
  DType out_dtype = DType::float32;
  std::int64_t cols = 0;
  NormParams params;
};

/// out[i] = act(gate[i]) * up[i], or act(gate[i]) without `up`.
struct ActivationWork {
  const float* gate = nullptr;
  const float* up = nullptr;
  void* out = nullptr;
  DType out_dtype = DType::float32;
  Activation act = Activation::silu;
};

/// The query vectors of adjacent rows of one sequence that share one KV head: vector i is row i / group, query head i %
/// group of those that read the KV head. Row r stands at position first_position + r.
struct AttentionWork {
  const std::byte* q = nullptr;  ///< vector 0; the vectors of a row are adjacent
  std::byte* out = nullptr;      ///< the same places in the output
  std::int64_t row_bytes = 0;    ///< of q and of out
  std::int64_t vectors = 0;
  std::int64_t group = 1;
  std::int64_t first_position = 0;
  std::int64_t window = 0;
  float scale = 1.0F;
  float soft_cap = 0.0F;                 ///< see AttentionParams
  const float* slopes = nullptr;         ///< [group] of these query heads; null: none
  const std::byte* head = nullptr;       ///< the KV head in block 0 of the layer
  const std::int32_t* blocks = nullptr;  ///< the sequence's row of the block table
  KvLayout layout;
  DType dtype = DType::float32;  ///< of the cache
};

/// Running softmax of AttentionWork's vectors: maxima [vectors], sums of exponentials [vectors], weighted V [vectors,
/// padded_dim].
struct AttentionState {
  float* maximum = nullptr;
  float* sum = nullptr;
  float* values = nullptr;
};

/// The kernels of one set. A kernel never allocates and knows no threads.
struct CpuKernels {
  /// y[i] = e^x[i]
  void (*exponentials)(const float* x, float* y, std::int64_t count);
  void (*error_functions)(const float* x, float* y, std::int64_t count);
  void (*norm)(const NormWork& work, std::int64_t begin, std::int64_t end);
  float (*sum_of_squares)(const float* x, std::int64_t cols);
  void (*adjust)(float* x, std::int64_t count, const AdjustParams& params);
  /// Elements [begin, end); bits do not depend on where a range begins.
  void (*activate)(const ActivationWork& work, std::int64_t begin, std::int64_t end);
  /// Floats that attend() needs as scratch for `vectors` vectors.
  std::int64_t (*attention_scratch)(const KvLayout& layout, std::int64_t vectors);
  /// Blocks of kAttentionBlock positions [first, last) in ascending order. Without `raw` they are folded into `state`,
  /// which starts empty; with it there is one block, and `state` receives that block alone (of vectors that see it).
  void (*attend)(const AttentionWork& work, std::int64_t first, std::int64_t last, bool raw,
                 const AttentionState& state, float* scratch);
  void (*clear)(const AttentionWork& work, const AttentionState& state);
  /// Folds block number `block` (from attend with `raw`) into `state`.
  void (*fold)(const AttentionWork& work, std::int64_t block, const AttentionState& from, const AttentionState& state);
  /// out = values / sum
  void (*finish)(const AttentionWork& work, const AttentionState& state);
};

const CpuKernels& scalar_kernels() noexcept;
const CpuKernels& avx2_kernels() noexcept;
const CpuKernels& avx512_kernels() noexcept;
const CpuKernels& kernels_of(KernelSet set) noexcept;

}  // namespace tpinfer
