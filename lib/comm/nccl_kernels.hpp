#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tpinfer::cuda {

/// total[i] = float(sums[i]), i < count; *beyond grows by the number of sums at or above kExactLimit in magnitude.
cudaError_t round_totals(const double* sums, std::int64_t count, float* total, unsigned long long* beyond,
                         cudaStream_t stream);

}  // namespace tpinfer::cuda
