#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/cuda_kernels.hpp"

namespace tpinfer::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float to_float(float value) { return value; }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

/// Calls use(pointer of the element type `dtype` to data): kernels are templates over it.
template <class Use>
cudaError_t with_type(DType dtype, void* data, Use&& use) {
  switch (dtype) {
    case DType::float32: use(static_cast<float*>(data)); break;
    case DType::float16: use(static_cast<__half*>(data)); break;
    case DType::bfloat16: use(static_cast<__nv_bfloat16*>(data)); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

/// One block for each row and each kThreads columns.
dim3 element_grid(std::int64_t rows, std::int64_t cols) {
  return dim3(static_cast<unsigned>(rows), static_cast<unsigned>((cols + kThreads - 1) / kThreads));
}
__device__ std::int64_t element_column() {
  return static_cast<std::int64_t>(blockIdx.y) * kThreads + static_cast<std::int64_t>(threadIdx.x);
}

template <class T>
__global__ void embed_kernel(const T* table, std::int64_t table_rows, std::int64_t cols, std::int64_t first_id,
                             const std::int32_t* tokens, double* partials) {
  const std::int64_t col = element_column();
  if (col >= cols) return;
  const std::int64_t row = static_cast<std::int64_t>(tokens[blockIdx.x]) - first_id;
  const bool here = row >= 0 && row < table_rows;
  partials[blockIdx.x * cols + col] = here ? static_cast<double>(to_float(table[row * cols + col])) : 0.0;
}

/// Sum over the threads of a block, halving: the order is fixed. Every thread gets it.
__device__ float block_sum(float value) {
  __shared__ float sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  const float total = sums[0];
  __syncthreads();  // `sums` may be used again
  return total;
}

template <class T>
__global__ void norm_kernel(const float* x, std::int64_t cols, NormParams params, T* out) {
  const float* row = x + blockIdx.x * cols;
  const float count = static_cast<float>(cols);
  float mean = 0.0F;
  if (params.kind == NormKind::layer) {
    float sum = 0.0F;
    for (std::int64_t col = threadIdx.x; col < cols; col += kThreads) sum += row[col];
    mean = block_sum(sum) / count;
  }
  float squares = 0.0F;
  for (std::int64_t col = threadIdx.x; col < cols; col += kThreads) {
    const float centred = row[col] - mean;
    squares += centred * centred;
  }
  const float scale = 1.0F / sqrtf(block_sum(squares) / count + params.epsilon);
  for (std::int64_t col = threadIdx.x; col < cols; col += kThreads) {
    const float normed = (row[col] - mean) * scale * params.weight[col];
    store(out + blockIdx.x * cols + col, params.bias ? normed + params.bias[col] : normed);
  }
}

__device__ float apply(Activation act, float x) {
  switch (act) {
    case Activation::silu: return x / (1.0F + expf(-x));
    case Activation::gelu: return 0.5F * x * (1.0F + erff(x * 0.70710678F));
    case Activation::gelu_tanh: return 0.5F * x * (1.0F + tanhf(0.79788456F * (x + 0.044715F * x * x * x)));
    case Activation::relu: return fmaxf(x, 0.0F);
  }
  return x;
}

template <class T>
__global__ void activate_kernel(const float* x, std::int64_t x_cols, std::int64_t width, Activation act, bool gated,
                                T* out) {
  const std::int64_t col = element_column();
  if (col >= width) return;
  const float* row = x + blockIdx.x * x_cols;
  const float value = apply(act, row[col]);
  store(out + blockIdx.x * width + col, gated ? value * row[width + col] : value);
}

__global__ void add_kernel(float* y, std::int64_t cols, const float* total, const float* bias) {
  const std::int64_t col = element_column();
  if (col >= cols) return;
  const std::int64_t at = blockIdx.x * cols + col;
  if (total && bias)
    y[at] += total[at] + bias[col];
  else
    y[at] += total ? total[at] : bias[col];
}

__global__ void gather_kernel(const float* x, std::int64_t cols, const std::int32_t* index, float* out) {
  const std::int64_t col = element_column();
  if (col < cols) out[blockIdx.x * cols + col] = x[index[blockIdx.x] * cols + col];
}

}  // namespace

cudaError_t embed(const void* table, DType dtype, std::int64_t table_rows, std::int64_t cols, std::int64_t first_id,
                  const StepBatch& batch, double* partials, cudaStream_t stream) {
  if (batch.rows == 0 || cols == 0) return cudaSuccess;
  return with_type(dtype, const_cast<void*>(table), [&](auto* typed) {
    embed_kernel<<<element_grid(batch.rows, cols), kThreads, 0, stream>>>(typed, table_rows, cols, first_id,
                                                                          batch.tokens, partials);
  });
}

cudaError_t norm(const Tensor& x, const NormParams& params, const Tensor& out, cudaStream_t stream) {
  if (x.rows == 0 || x.cols == 0) return cudaSuccess;
  return with_type(out.dtype, out.data, [&](auto* typed) {
    norm_kernel<<<static_cast<unsigned>(x.rows), kThreads, 0, stream>>>(x.floats(), x.cols, params, typed);
  });
}

cudaError_t activate(const Tensor& x, Activation act, bool gated, const Tensor& out, cudaStream_t stream) {
  if (out.rows == 0 || out.cols == 0) return cudaSuccess;
  return with_type(out.dtype, out.data, [&](auto* typed) {
    activate_kernel<<<element_grid(out.rows, out.cols), kThreads, 0, stream>>>(x.floats(), x.cols, out.cols, act, gated,
                                                                               typed);
  });
}

cudaError_t add(const Tensor& y, const float* total, const float* bias, cudaStream_t stream) {
  if (y.rows == 0 || y.cols == 0) return cudaSuccess;
  add_kernel<<<element_grid(y.rows, y.cols), kThreads, 0, stream>>>(y.floats(), y.cols, total, bias);
  return cudaGetLastError();
}

cudaError_t gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out, cudaStream_t stream) {
  if (out.rows == 0 || out.cols == 0) return cudaSuccess;
  gather_kernel<<<element_grid(out.rows, out.cols), kThreads, 0, stream>>>(x.floats(), out.cols, index, out.floats());
  return cudaGetLastError();
}

}  // namespace tpinfer::cuda
