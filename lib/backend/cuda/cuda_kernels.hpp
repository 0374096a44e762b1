#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.hpp"
#include "backend/cuda/products.hpp"
#include "backend/row_choice.hpp"

/// The kernels of the CUDA backend but for products and attention: each function enqueues on `stream`. Shapes and types
/// are those of the Backend operation of the same name unless it says otherwise; calls without elements launch nothing.
namespace tpinfer::cuda {

/// Of a grouped activation: the expert of each row, and each expert's down projection. Empty: all rows are alike.
struct EntryWidths {
  const std::int32_t* experts = nullptr;  ///< [rows]
  const WeightView* parts = nullptr;      ///< [experts]; cols is the width
};

/// partials (float64 or float32) from a table whose row 0 is token first_id.
void embed(const WeightView& table, DType dtype, std::int64_t first_id, const StepBatch& batch, const Tensor& partials,
           cudaStream_t stream);
/// What is added to rows: scale * (total [rows, cols] + bias [cols]), either of which may be null.
struct Addend {
  const float* total = nullptr;
  const float* bias = nullptr;
  float scale = 1.0F;
};
/// x += addend, then its norm; each sum runs in one order that depends on the number of
/// columns alone.
void norm(const Tensor& x, const Addend& addend, const NormParams& params, const Tensor& out, cudaStream_t stream);
/// One warp a head; each sum runs in one order that depends on head_dim alone.
void head_squares(const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k, const Tensor& partials,
                  cudaStream_t stream);
void norm_heads(const Tensor& qkv, const AttentionHeads& heads, const HeadNormParams& params, cudaStream_t stream);
void adjust(const Tensor& x, const AdjustParams& params, cudaStream_t stream);
/// `width` columns of out, or with `entries` at most as many.
void activate(const Tensor& x, std::int64_t width, Activation act, bool gated, const Tensor& out,
              const EntryWidths& entries, cudaStream_t stream);
/// y [rows, cols] += addend
void add(const Tensor& y, const Addend& addend, cudaStream_t stream);
void add_rows(const WeightView& table, DType dtype, std::int64_t first_row, const std::int32_t* index,
              const Tensor& residual, cudaStream_t stream);
void gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out, cudaStream_t stream);
/// `count` pairs of blocks in device memory, for a store in the layout of KvLayout.
void copy_blocks(void* store, const KvSpec& spec, const std::int32_t* pairs, std::int64_t count, cudaStream_t stream);

/// One warp a row; the softmax's sum runs in one order that depends on the number of experts alone.
void route(const Tensor& logits, const RoutingParams& params, const Routing& routing, cudaStream_t stream);

/// Rows of a mixture sorted by expert, in device memory. Entries of one expert stand in any order.
struct ExpertEntries {
  std::int32_t* rows = nullptr;     ///< [entries] row of the activations
  std::int32_t* experts = nullptr;  ///< [entries]
  float* weights = nullptr;         ///< [entries]
  std::int32_t* places = nullptr;   ///< [rows, slots] the entry of each choice
  RowTile* tiles = nullptr;         ///< [most tiles]
  std::int32_t* tiles_end = nullptr;
};
/// Sorts `rows` rows of routing and cuts each expert's into tiles of tile_rows.
void group_rows(const Routing& routing, std::int64_t rows, std::int64_t experts, int tile_rows,
                const ExpertEntries& entries, cudaStream_t stream);
/// partials (float32) = sum over a row's slots, in their order, of weight * y [entries, cols].
void combine_slots(const float* y, const Routing& routing, const std::int32_t* places, const Tensor& partials,
                   cudaStream_t stream);

/// Splits, rotates and stores; `layer` is the layer's part of the cache.
void rotate_and_store(const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope, const StepBatch& batch,
                      const KvSpec& spec, void* layer, const Tensor& q, cudaStream_t stream);

/// Rows of logits and what is wanted of them, all in device memory.
struct RowChoices {
  float* logits = nullptr;  ///< [rows, vocab]; changed by the edits
  std::int32_t vocab = 0;
  std::int32_t most_alternatives = 0;
  const RowWish* wishes = nullptr;  ///< [rows]
  const LogitEdit* edits = nullptr;
  float* before = nullptr;              ///< [edits] the edited logits as they were
  const std::uint8_t* known = nullptr;  ///< [vocab] 0: no token has this id; null: all have one
  RowChoice* choices = nullptr;         ///< [rows]
  RankedId* alternatives = nullptr;     ///< [rows, most_alternatives]
};
void choose(const RowChoices& rows, std::int64_t count, cudaStream_t stream);

/// Stored elements in device memory -> rows [first_row, ..) and columns [first_col, ..) of `to`. `from` is dense:
/// [rows, cols], or [cols, rows] when `transposed`.
struct StoredBlock {
  const void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool transposed = false;
};
void convert(const StoredBlock& from, void* to, DType dtype, std::int64_t to_cols, std::int64_t first_row,
             std::int64_t first_col, cudaStream_t stream);

}  // namespace tpinfer::cuda
