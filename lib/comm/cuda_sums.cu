#include "comm/cuda_sums.hpp"
#include "core/cuda_launch.cuh"
#include "core/exact_sum.hpp"

namespace tpinfer::cuda {
namespace {

constexpr int kThreads = 256;

LaunchShape one_thread_each(std::int64_t count) {
  return {dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)), dim3(kThreads)};
}

__device__ std::int64_t element() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + static_cast<std::int64_t>(threadIdx.x);
}

__global__ void round_kernel(const double* sums, std::int64_t count, double limit, float* total,
                             unsigned long long* beyond) {
  const std::int64_t i = element();
  if (i >= count) return;
  total[i] = static_cast<float>(sums[i]);
  if (fabs(sums[i]) >= limit) atomicAdd(beyond, 1ULL);
}

__global__ void sum_kernel(const float* parts, std::int64_t number, std::int64_t pitch, std::int64_t count,
                           float* total) {
  const std::int64_t i = element();
  if (i >= count) return;
  float sum = parts[i];
  for (std::int64_t part = 1; part < number; ++part) sum += parts[part * pitch + i];
  total[i] = sum;
}

}  // namespace

void round_totals(const double* sums, std::int64_t count, float* total, unsigned long long* beyond,
                  cudaStream_t stream) {
  launch(round_kernel, one_thread_each(count), stream, sums, count, kExactLimit, total, beyond);
}

void sum_parts(const float* parts, std::int64_t number, std::int64_t pitch, std::int64_t count, float* total,
               cudaStream_t stream) {
  launch(sum_kernel, one_thread_each(count), stream, parts, number, pitch, count, total);
}

}  // namespace tpinfer::cuda
