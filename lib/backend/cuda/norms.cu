#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/fragments.cuh"

namespace tpinfer::cuda {
namespace {

constexpr int kThreads = 256;

/// Sum over the threads of a block in one order: within each warp by halves, then over the warps by halves. Every
/// thread gets it.
__device__ float block_sum(float value, float* sums) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  if (lane_index() == 0) sums[warp_index()] = value;
  __syncthreads();
  value = sums[lane_index() % (kThreads / 32)];
  for (int distance = kThreads / 64; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

/// One block a row, which first becomes x + addend, as add_kernel would make it.
template <class T>
__global__ void norm_kernel(float* x, std::int64_t cols, Addend addend, NormParams params, T* out) {
  __shared__ float sums[2][kThreads / 32];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * cols;
  float* row = x + begin;
  const float count = static_cast<float>(cols);
  const auto first = static_cast<std::int64_t>(threadIdx.x);
  float sum = 0.0F;
  float squares = 0.0F;
  for (std::int64_t col = first; col < cols; col += kThreads) {
    if (addend.total || addend.bias) row[col] += added(addend, begin + col, col);
    sum += row[col];
    squares += row[col] * row[col];
  }
  float mean = 0.0F;
  if (params.kind == NormKind::layer) {
    mean = block_sum(sum, sums[0]) / count;
    squares = 0.0F;
    for (std::int64_t col = first; col < cols; col += kThreads) {
      const float centred = row[col] - mean;
      squares += centred * centred;
    }
  }
  const float scale = 1.0F / sqrtf(block_sum(squares, sums[1]) / count + params.epsilon);
  for (std::int64_t col = first; col < cols; col += kThreads) {
    const float normed = (row[col] - mean) * scale * params.weight[col];
    out[begin + col] = from_float<T>(params.bias ? normed + params.bias[col] : normed);
  }
}

}  // namespace

void norm(const Tensor& x, const Addend& addend, const NormParams& params, const Tensor& out, cudaStream_t stream) {
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(x.rows)), .block = dim3(kThreads)};
  with_type(out.dtype, out.data, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    launch(norm_kernel<T>, shape, stream, x.floats(), x.cols, addend, params, typed);
  });
}

}  // namespace tpinfer::cuda
