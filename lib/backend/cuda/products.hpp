#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/tensor.hpp"

/// Products with weights, y = x W^T, by kernels whose every result has one order of its sum: the number of rows, the
/// other rows and the kernel that is chosen for their number never change a bit.
///
/// The columns of a range (a leaf, or all of them) are cut into kProductParts parts of about as many steps of 32
/// columns. A part is one chain of matrix instructions from zero, in ascending order; the parts are added in ascending
/// order in float32. With few rows each warp of a block takes a part (weights are then read at the memory's rate), with
/// many rows each warp takes all of them in turn.
namespace tpinfer::cuda {

inline constexpr int kProductParts = 8;

/// Weights [rows, cols] in device memory, row-major; leaf_ends [leaves] in device memory, null: one range.
struct WeightView {
  const void* data = nullptr;
  const std::int32_t* leaf_ends = nullptr;
  std::int32_t leaves = 0;
  std::int32_t rows = 0;
  std::int32_t cols = 0;
  bool aligned = false;  ///< rows and leaves start at multiples of 8 elements
};

/// Some rows that go to one expert: entries [first, first + count) of the grouped ones.
struct RowTile {
  std::int32_t expert = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// How the rows of a grouped product find their expert. All in device memory.
struct GroupView {
  const WeightView* weights = nullptr;      ///< [experts]
  const RowTile* tiles = nullptr;           ///< null: one weight matrix for all rows
  const std::int32_t* tiles_end = nullptr;  ///< number of tiles
  const std::int32_t* x_rows = nullptr;     ///< row of x of each entry; null: the entry itself
  const std::int32_t* sum_rows = nullptr;   ///< row of `sums` of each entry
  const float* scales = nullptr;            ///< factor of each leaf sum of an entry, before it is rounded to the grid
};

/// One product. Either y or sums is set.
struct Product {
  DType dtype = DType::float32;
  int tile_rows = 0;   ///< of a grouped product: most rows of a tile, one of product_tile_rows()
  WeightView weights;  ///< in a grouped product the largest rows, and whether all are aligned
  GroupView groups;
  const void* x = nullptr;  ///< [rows, x_stride] of `dtype`
  std::int64_t x_stride = 0;
  std::int64_t rows = 0;        ///< of a grouped product: entries
  std::int64_t most_tiles = 0;  ///< of a grouped product: tiles there may be
  const float* bias = nullptr;  ///< [weights.rows], added to y
  float* y = nullptr;           ///< float32 [rows, y_stride]
  std::int64_t y_stride = 0;
  double* sums = nullptr;  ///< float64 [.., weights.rows]: leaf sums are rounded to the grid and added to what is there
};

/// Rows that one block takes, for `rows` rows that share a matrix: 8, 16, 32, 64 or 128.
int product_tile_rows(DType dtype, bool aligned, std::int64_t rows);

/// Enqueues it. `processors` of the device, to choose a kernel by.
void multiply(const Product& product, int processors, cudaStream_t stream);

// The two kernels behind it; `multiply` chooses.
void multiply_streamed(const Product& product, int tile_rows, cudaStream_t stream);
void multiply_tiled(const Product& product, bool large, cudaStream_t stream);

}  // namespace tpinfer::cuda
