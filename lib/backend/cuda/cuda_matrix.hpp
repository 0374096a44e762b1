#pragma once

#include <cublasLt.h>

#include <optional>

#include "backend/backend.hpp"
#include "core/cuda_handles.hpp"

namespace tpinfer {

void check(cublasStatus_t status, std::string_view what);

struct CublasLtTraits {
  using Handle = cublasLtHandle_t;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle handle) const noexcept { cublasLtDestroy(handle); }
};
using CublasLt = UniqueHandle<CublasLtTraits>;

CublasLt make_cublas_lt();

/// One column-parallel product, y = x W^T, by one cuBLASLt algorithm chosen once from the shape of W alone, without
/// split sums and without a workspace: the number of rows of x then never changes the order of a sum. (That the
/// algorithm keeps this for all row counts has to be seen on a GPU.)
class CublasLtProduct {
 public:
  /// Error(communication) when cuBLASLt has no such algorithm for [rows, cols] of `dtype`.
  CublasLtProduct(cublasLtHandle_t handle, const MatrixSpec& spec);
  /// y [x.rows, rows] float32 = x [x.rows, cols] w^T; x has the type of w, both start at multiples of 16 bytes.
  void run(cublasLtHandle_t handle, const void* weights, const Tensor& x, const Tensor& y, cudaStream_t stream) const;

 private:
  struct Layouts {
    cublasLtMatrixLayoutOpaque_t weights;
    cublasLtMatrixLayoutOpaque_t x;
    cublasLtMatrixLayoutOpaque_t y;
  };
  Layouts layouts(std::int64_t x_rows) const;

  std::int64_t rows_;
  std::int64_t cols_;
  cudaDataType_t type_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatmulAlgo_t algorithm_;
};

/// Dense row-major [rows, cols] in the compute type, without padding.
class CudaMatrix final : public PackedMatrix {
 public:
  CudaMatrix(const MatrixSpec& spec, cublasLtHandle_t handle, cudaStream_t stream);
  std::size_t bytes() const noexcept override;
  std::byte* data() const noexcept { return static_cast<std::byte*>(data_.get()); }
  /// Absent for lookup tables, row-parallel matrices and matrices without elements.
  const std::optional<CublasLtProduct>& product() const noexcept { return product_; }

 private:
  CudaMemory data_;
  std::optional<CublasLtProduct> product_;
};

/// `count` elements of row `row` of `from`, from column `col` on, as `dtype` at `to`.
void convert_row(const StoredMatrix& from, std::int64_t row, std::int64_t col, std::int64_t count, DType dtype,
                 std::byte* to);

}  // namespace tpinfer
