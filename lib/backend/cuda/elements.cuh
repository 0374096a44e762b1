#pragma once

#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/tile_ops.cuh"
#include "core/dtype.hpp"

/// Kernels that work element by element: a block for each row and each kElementThreads columns.
namespace tpinfer::cuda {

inline constexpr int kElementThreads = 256;

inline LaunchShape element_shape(std::int64_t rows, std::int64_t cols) {
  return {
      .grid = dim3(static_cast<unsigned>(rows), static_cast<unsigned>((cols + kElementThreads - 1) / kElementThreads)),
      .block = dim3(kElementThreads)};
}

__device__ inline std::int64_t element_row() { return static_cast<std::int64_t>(blockIdx.x); }
__device__ inline std::int64_t element_column() {
  return static_cast<std::int64_t>(blockIdx.y) * kElementThreads + static_cast<std::int64_t>(threadIdx.x);
}

/// What `addend` gives to element `at` of [rows, cols], in column `col`.
__device__ inline float added(const Addend& addend, std::int64_t at, std::int64_t col) {
  if (addend.total && addend.bias) return (addend.total[at] + addend.bias[col]) * addend.scale;
  return (addend.total ? addend.total[at] : addend.bias[col]) * addend.scale;
}

/// Calls use(pointer of the element type `dtype` to data): kernels are templates over it. `dtype` is a weight type.
template <class Use>
void with_type(DType dtype, void* data, Use&& use) {
  switch (dtype) {
    case DType::float16: return use(static_cast<__half*>(data));
    case DType::bfloat16: return use(static_cast<__nv_bfloat16*>(data));
    default: return use(static_cast<float*>(data));
  }
}
template <class Use>
void with_type(DType dtype, const void* data, Use&& use) {
  with_type(dtype, const_cast<void*>(data),
            [&](auto* typed) { use(const_cast<const std::remove_pointer_t<decltype(typed)>*>(typed)); });
}

}  // namespace tpinfer::cuda
