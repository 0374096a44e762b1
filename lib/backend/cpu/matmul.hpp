#pragma once

#include <cstdint>

#include "backend/cpu/packed_matrix.hpp"
#include "backend/factory.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer {

/// y [rows, w.rows] (float32) = x [rows, w.cols] w^T + bias [w.rows] or null. x is bfloat16 for bfloat16 weights,
/// otherwise float32. An output is one float32 sum over ascending channels, the same bits for any number of rows and
/// threads. Error(internal) for shapes and types that do not match.
void cpu_matmul(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x, const float* bias,
                const Tensor& y);

/// partials [rows, w.rows] = sum over the leaves of w of (leaf sum rounded to the grid); zeros when w has no columns.
void cpu_matmul_partial(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x, double* partials);

/// partials [batch.rows, table.cols] = row tokens[r] - first_id of the table, or zeros when it is not in it. -0 becomes
/// +0.
void cpu_embed(ParallelFor& parallel, const CpuMatrix& table, std::int64_t first_id, const StepBatch& batch,
               double* partials);

}  // namespace tpinfer
