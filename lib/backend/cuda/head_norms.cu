#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/fragments.cuh"

namespace tpinfer::cuda {
namespace {

constexpr int kWarps = 8;

/// Sum over a warp's lanes by halves; every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

/// Sum of (x - shift)^2: each lane every 32nd channel, then by halves.
__device__ float squares_of(const float* head, int head_dim, float shift) {
  float sum = 0.0F;
  for (int c = lane_index(); c < head_dim; c += 32) sum += (head[c] - shift) * (head[c] - shift);
  return warp_sum(sum);
}

/// One block a row: its warps share the heads; exact sums may be added in any order, plain ones are in ascending order.
template <class Partial>
__global__ void squares_kernel(const float* qkv, AttentionHeads heads, int first_k, Partial* partials) {
  __shared__ float of_warp[kWarps];
  const auto q_heads = static_cast<int>(heads.q_heads);
  const auto k_heads = static_cast<int>(heads.kv_heads);
  const auto head_dim = static_cast<int>(heads.head_dim);
  const float* row =
      qkv + static_cast<std::int64_t>(blockIdx.x) * (heads.q_heads + 2 * heads.kv_heads) * heads.head_dim;
  Partial sums[2] = {Partial{0}, Partial{0}};
  for (int first = 0; first < q_heads + k_heads; first += kWarps) {
    const int head = first + warp_index();
    const float squares = head < q_heads + k_heads ? squares_of(row + head * head_dim, head_dim, 0.0F) : 0.0F;
    if (lane_index() == 0) of_warp[warp_index()] = squares;
    __syncthreads();
    for (int w = 0; threadIdx.x == 0 && w < kWarps && first + w < q_heads + k_heads; ++w) {
      const bool is_q = first + w < q_heads;
      if (!is_q && first + w < q_heads + first_k) continue;
      if constexpr (sizeof(Partial) == sizeof(double))
        sums[is_q ? 0 : 1] += on_grid(of_warp[w]);
      else
        sums[is_q ? 0 : 1] += of_warp[w];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partials[2 * blockIdx.x] = sums[0];
    partials[2 * blockIdx.x + 1] = sums[1];
  }
}

/// One warp a head.
__global__ void norm_heads_kernel(float* qkv, AttentionHeads heads, HeadNormParams params) {
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp_index();
  const auto q_heads = static_cast<int>(heads.q_heads);
  const auto head_dim = static_cast<int>(heads.head_dim);
  if (head >= q_heads + static_cast<int>(heads.kv_heads)) return;
  const bool is_q = head < q_heads;
  float* x = qkv + static_cast<std::int64_t>(blockIdx.x) * (heads.q_heads + 2 * heads.kv_heads) * heads.head_dim +
             head * head_dim;
  const float* weight = is_q ? params.q_weight : params.k_weight;
  if (params.each_head || params.squares) weight += (is_q ? head : head - q_heads) * head_dim;
  float mean = 0.0F;
  float variance = 0.0F;
  if (params.squares) {
    variance =
        params.squares[2 * blockIdx.x + (is_q ? 0 : 1)] / static_cast<float>(is_q ? params.q_cols : params.k_cols);
  } else {
    if (params.kind == NormKind::layer) {
      float sum = 0.0F;
      for (int c = lane_index(); c < head_dim; c += 32) sum += x[c];
      mean = warp_sum(sum) / static_cast<float>(head_dim);
    }
    variance = squares_of(x, head_dim, mean) / static_cast<float>(head_dim);
  }
  const float scale = 1.0F / sqrtf(variance + params.epsilon);
  for (int c = lane_index(); c < head_dim; c += 32) x[c] = (x[c] - mean) * scale * weight[c];
}

}  // namespace

void head_squares(const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k, const Tensor& partials,
                  cudaStream_t stream) {
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(qkv.rows)), .block = dim3(32 * kWarps)};
  if (partials.dtype == DType::float64)
    launch(squares_kernel<double>, shape, stream, qkv.floats(), heads, static_cast<int>(first_k),
           static_cast<double*>(partials.data));
  else
    launch(squares_kernel<float>, shape, stream, qkv.floats(), heads, static_cast<int>(first_k), partials.floats());
}

void norm_heads(const Tensor& qkv, const AttentionHeads& heads, const HeadNormParams& params, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((heads.q_heads + heads.kv_heads + kWarps - 1) / kWarps);
  launch(norm_heads_kernel, {.grid = dim3(static_cast<unsigned>(qkv.rows), blocks), .block = dim3(32 * kWarps)}, stream,
         qkv.floats(), heads, params);
}

}  // namespace tpinfer::cuda
