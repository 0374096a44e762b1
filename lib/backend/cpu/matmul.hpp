#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/packed_matrix.hpp"
#include "backend/cpu/product_scratch.hpp"
#include "backend/factory.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer {

/// y [rows, w.rows] (float32) = x [rows, w.cols] w^T + bias [w.rows] or null. x is bfloat16 for bfloat16 weights,
/// otherwise float32. An output is one float32 sum over ascending channels, the same bits for any number of rows and
/// threads. Error(internal) for shapes and types that do not match. `scratch`: one for each thread, to be kept from
/// call to call; without any, memory is taken for this one.
void cpu_matmul(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x, const float* bias,
                const Tensor& y, std::span<ProductScratch> scratch = {});

/// Where the partial sums of a row-parallel product go.
struct PartialSums {
  double* totals = nullptr;       ///< [rows, w.rows] exact sums, or
  float* sums = nullptr;          ///< [rows, w.rows] plain ones: no leaves, no grid
  const float* scales = nullptr;  ///< [rows] a leaf's sum is multiplied by it before it is rounded, or null
  const std::int32_t* rows =
      nullptr;              ///< [rows] the row of totals that each row goes to, all different; null: its own number
  bool accumulate = false;  ///< added to what is there, instead of replacing it
};

/// Columns [begin, end) of `rows` rows become zero.
void clear_rows(const PartialSums& sums, std::int64_t rows, std::int64_t cols, std::int64_t begin, std::int64_t end);

/// Sums over the leaves of w of (leaf sum rounded to the grid), or plain sums; zeros when w has no columns.
void cpu_matmul_partial(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x,
                        const PartialSums& sums, std::span<ProductScratch> scratch = {});

/// partials [batch.rows, table.cols] (float64 or float32) = row tokens[r] - first_id of the table, or zeros when it is
/// not in it. -0 becomes +0.
void cpu_embed(ParallelFor& parallel, const CpuMatrix& table, std::int64_t first_id, const StepBatch& batch,
               const Tensor& partials);

}  // namespace tpinfer
