#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/elements.cuh"

namespace tpinfer::cuda {
namespace {

template <class T, class Sum>
__global__ void embed_kernel(const T* table, std::int64_t table_rows, std::int64_t cols, std::int64_t first_id,
                             const std::int32_t* tokens, Sum* partials) {
  const std::int64_t col = element_column();
  if (col >= cols) return;
  const std::int64_t row = static_cast<std::int64_t>(tokens[blockIdx.x]) - first_id;
  const bool here = row >= 0 && row < table_rows;
  partials[element_row() * cols + col] =
      here ? static_cast<Sum>(to_float(table[row * cols + col])) + Sum{0} : Sum{0};  // -0 as +0
}

__device__ float apply(Activation act, float x) {
  switch (act) {
    case Activation::silu: return x / (1.0F + expf(-x));
    case Activation::gelu: return 0.5F * x * (1.0F + erff(x * 0.70710678F));
    case Activation::gelu_tanh: return 0.5F * x * (1.0F + tanhf(0.79788456F * (x + 0.044715F * x * x * x)));
    case Activation::relu: return x < 0.0F ? 0.0F : x;
  }
  return x;
}

template <class T>
__global__ void activate_kernel(const float* x, std::int64_t x_cols, std::int64_t width, Activation act, bool gated,
                                T* out, std::int64_t out_cols, EntryWidths entries) {
  if (entries.experts) width = entries.parts[entries.experts[blockIdx.x]].cols;
  const std::int64_t col = element_column();
  if (col >= width) return;
  const float* row = x + element_row() * x_cols;
  const float value = apply(act, row[col]);
  out[element_row() * out_cols + col] = from_float<T>(gated ? value * row[width + col] : value);
}

__global__ void add_kernel(float* y, std::int64_t cols, Addend addend) {
  const std::int64_t col = element_column();
  if (col >= cols) return;
  const std::int64_t at = element_row() * cols + col;
  y[at] += added(addend, at, col);
}

__global__ void adjust_kernel(float* x, std::int64_t cols, AdjustParams params) {
  const std::int64_t col = element_column();
  if (col >= cols) return;
  float& value = x[element_row() * cols + col];
  float y = value * params.scale;
  if (params.clip > 0.0F) y = y > params.clip ? params.clip : y < -params.clip ? -params.clip : y;
  if (params.soft_cap > 0.0F) y = params.soft_cap * tanhf(y / params.soft_cap);
  value = y;
}

template <class T>
__global__ void add_rows_kernel(const T* table, std::int64_t first_row, const std::int32_t* index, std::int64_t cols,
                                float* residual) {
  const std::int64_t col = element_column();
  if (col < cols) residual[element_row() * cols + col] += to_float(table[(first_row + index[blockIdx.x]) * cols + col]);
}

__global__ void gather_kernel(const float* x, std::int64_t cols, const std::int32_t* index, float* out) {
  const std::int64_t col = element_column();
  if (col < cols) out[element_row() * cols + col] = x[index[blockIdx.x] * cols + col];
}

/// Every thread goes through all pairs for its own 16 bytes of a block, so that they are copied in order.
__global__ void copy_blocks_kernel(Pack<float>* store, std::int64_t blocks, std::int64_t block_packs,
                                   const std::int32_t* pairs, int count) {
  const std::int64_t at = element_column();
  if (at >= block_packs) return;
  Pack<float>* layer = store + element_row() * blocks * block_packs + at;
  for (int i = 0; i < count; ++i) layer[pairs[2 * i + 1] * block_packs] = layer[pairs[2 * i] * block_packs];
}

}  // namespace

void embed(const WeightView& table, DType dtype, std::int64_t first_id, const StepBatch& batch, const Tensor& partials,
           cudaStream_t stream) {
  const LaunchShape shape = element_shape(batch.rows, partials.cols);
  with_type(dtype, table.data, [&](auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    if (partials.dtype == DType::float64)
      launch(embed_kernel<T, double>, shape, stream, typed, table.rows, partials.cols, first_id, batch.tokens,
             static_cast<double*>(partials.data));
    else
      launch(embed_kernel<T, float>, shape, stream, typed, table.rows, partials.cols, first_id, batch.tokens,
             partials.floats());
  });
}

void activate(const Tensor& x, std::int64_t width, Activation act, bool gated, const Tensor& out,
              const EntryWidths& entries, cudaStream_t stream) {
  with_type(out.dtype, out.data, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    launch(activate_kernel<T>, element_shape(out.rows, width), stream, x.floats(), x.cols, width, act, gated, typed,
           out.cols, entries);
  });
}

void add(const Tensor& y, const Addend& addend, cudaStream_t stream) {
  launch(add_kernel, element_shape(y.rows, y.cols), stream, y.floats(), y.cols, addend);
}

void adjust(const Tensor& x, const AdjustParams& params, cudaStream_t stream) {
  launch(adjust_kernel, element_shape(x.rows, x.cols), stream, x.floats(), x.cols, params);
}

void add_rows(const WeightView& table, DType dtype, std::int64_t first_row, const std::int32_t* index,
              const Tensor& residual, cudaStream_t stream) {
  with_type(dtype, table.data, [&](auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    launch(add_rows_kernel<T>, element_shape(residual.rows, residual.cols), stream, typed, first_row, index,
           residual.cols, residual.floats());
  });
}

void gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out, cudaStream_t stream) {
  launch(gather_kernel, element_shape(out.rows, out.cols), stream, x.floats(), out.cols, index, out.floats());
}

void copy_blocks(void* store, const KvSpec& spec, const std::int32_t* pairs, std::int64_t count, cudaStream_t stream) {
  const auto packs = static_cast<std::int64_t>(spec.bytes_per_block()) / spec.layers / 16;
  launch(copy_blocks_kernel, element_shape(spec.layers, packs), stream, static_cast<Pack<float>*>(store), spec.blocks,
         packs, pairs, static_cast<int>(count));
}

}  // namespace tpinfer::cuda
