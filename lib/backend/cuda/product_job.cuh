#pragma once

#include "backend/cuda/fragments.cuh"
#include "backend/cuda/products.hpp"

/// What one block of a product works on.
namespace tpinfer::cuda {

template <class T>
struct ProductJob {
  const T* weights = nullptr;
  const std::int32_t* leaf_ends = nullptr;
  int ranges = 0;   ///< leaves, or 1
  int outputs = 0;  ///< rows of the weights
  int cols = 0;
  int first = 0;  ///< row, or entry of a grouped product
  int count = 0;  ///< rows; 0: nothing to do

  /// End of the columns of a range.
  __device__ int range_end(int range) const { return ranges > 1 ? leaf_ends[range] : cols; }
  /// Row `output` of the weights, or the last one: what lies beyond is computed and never written.
  __device__ const T* row(int output) const {
    return weights + static_cast<std::int64_t>(output < outputs ? output : outputs - 1) * cols;
  }
};

/// The job of row tile `tile` of at most `tile_rows` rows.
template <class T>
__device__ inline ProductJob<T> find_job(const Product& product, int tile, int tile_rows) {
  ProductJob<T> job;
  WeightView weights = product.weights;
  if (product.groups.tiles) {
    if (tile >= *product.groups.tiles_end) return job;
    const RowTile rows = product.groups.tiles[tile];
    weights = product.groups.weights[rows.expert];
    job.first = rows.first;
    job.count = rows.count;
  } else {
    const int left = static_cast<int>(product.rows) - tile * tile_rows;
    job.first = tile * tile_rows;
    job.count = left < tile_rows ? left : tile_rows;
  }
  job.weights = static_cast<const T*>(weights.data);
  job.leaf_ends = weights.leaf_ends;
  job.ranges = product.sums && weights.leaf_ends ? weights.leaves : 1;
  job.outputs = weights.rows;
  job.cols = weights.cols;
  return job;
}

/// Row `index` of the job's rows of x, or its last one.
template <class T>
__device__ inline const T* input_row(const Product& product, const ProductJob<T>& job, int index) {
  const int entry = job.first + (index < job.count ? index : job.count - 1);
  const int row = product.groups.x_rows ? product.groups.x_rows[entry] : entry;
  return static_cast<const T*>(product.x) + row * product.x_stride;
}

/// Hands out one result: the sum of a range for row `index` of the job.
template <class T>
__device__ inline void emit(const Product& product, const ProductJob<T>& job, int index, int output, float sum) {
  if (index >= job.count || output >= job.outputs) return;
  const int entry = job.first + index;
  if (product.sums) {
    const std::int64_t row = product.groups.sum_rows ? product.groups.sum_rows[entry] : entry;
    const float value = product.groups.scales ? sum * product.groups.scales[entry] : sum;
    // Exact additions: several leaves, experts and blocks may come in any order.
    atomicAdd(product.sums + row * job.outputs + output, on_grid(value));
  } else {
    product.y[entry * product.y_stride + output] = product.bias ? sum + product.bias[output] : sum;
  }
}

/// Columns [begin, end) of part `part` of a range's columns.
struct PartColumns {
  int begin;
  int end;
};
__device__ inline PartColumns part_of(int range_begin, int range_end, int part) {
  const int steps = (range_end - range_begin + kStepColumns - 1) / kStepColumns;
  const int end = range_begin + steps * (part + 1) / kProductParts * kStepColumns;
  return {range_begin + steps * part / kProductParts * kStepColumns, end < range_end ? end : range_end};
}

}  // namespace tpinfer::cuda
