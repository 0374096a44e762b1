#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.hpp"

/// The small kernels of the CUDA backend: each function enqueues one on `stream` and returns the status of the launch.
/// Shapes and types are those of the Backend operation of the same name; calls without elements launch nothing.
namespace tpinfer::cuda {

/// partials [batch.rows, cols] from table [table_rows, cols] of `dtype`, whose row 0 is token first_id.
cudaError_t embed(const void* table, DType dtype, std::int64_t table_rows, std::int64_t cols, std::int64_t first_id,
                  const StepBatch& batch, double* partials, cudaStream_t stream);
/// One block a row; each sum runs in one order that depends on the number of columns alone.
cudaError_t norm(const Tensor& x, const NormParams& params, const Tensor& out, cudaStream_t stream);
cudaError_t activate(const Tensor& x, Activation act, bool gated, const Tensor& out, cudaStream_t stream);
/// y [rows, cols] += total [rows, cols] + bias [cols]; either may be null, not both.
cudaError_t add(const Tensor& y, const float* total, const float* bias, cudaStream_t stream);
cudaError_t gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out, cudaStream_t stream);

}  // namespace tpinfer::cuda
