#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace tpinfer {

/// A dense row-major [rows, cols] array in the memory of one device; not an owner. The runtime never dereferences
/// `data`.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  std::size_t bytes() const noexcept { return static_cast<std::size_t>(rows * cols) * dtype_size(dtype); }
  float* floats() const noexcept { return static_cast<float*>(data); }
  /// The first `n` rows.
  Tensor first(std::int64_t n) const noexcept { return {data, dtype, n, cols}; }
};

/// A weight as it lies in a mapped file: element (r, c) stands at data + r * row_stride + c * col_stride (bytes).
struct StoredMatrix {
  const std::byte* data = nullptr;
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
};

}  // namespace tpinfer
