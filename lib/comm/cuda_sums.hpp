#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

/// What collectives over GPUs compute beside NCCL; all in the order of `stream`.
namespace tpinfer::cuda {

/// total[i] = float(sums[i]), i < count; *beyond grows by the number of sums at or above kExactLimit in magnitude.
void round_totals(const double* sums, std::int64_t count, float* total, unsigned long long* beyond,
                  cudaStream_t stream);

/// total[i] = sum over parts of parts[part * pitch + i], i < count, in the order of the parts.
void sum_parts(const float* parts, std::int64_t number, std::int64_t pitch, std::int64_t count, float* total,
               cudaStream_t stream);

}  // namespace tpinfer::cuda
