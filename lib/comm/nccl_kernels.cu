#include "comm/nccl_kernels.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void round_kernel(const double* sums, std::int64_t count, double limit, float* total,
                             unsigned long long* beyond) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
  if (i >= count) return;
  total[i] = static_cast<float>(sums[i]);
  if (fabs(sums[i]) >= limit) atomicAdd(beyond, 1ULL);
}

}  // namespace

cudaError_t round_totals(const double* sums, std::int64_t count, float* total, unsigned long long* beyond,
                         cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  round_kernel<<<blocks, kThreads, 0, stream>>>(sums, count, kExactLimit, total, beyond);
  return cudaGetLastError();
}

}  // namespace tpinfer::cuda
