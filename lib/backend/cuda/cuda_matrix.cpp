#include "backend/cuda/cuda_matrix.hpp"

#include <cstring>

#include "core/checked_cast.hpp"

namespace tpinfer {
namespace {

/// The row count that the algorithm is chosen for; it is used for every other one as well.
constexpr std::int64_t kChosenRows = 128;
constexpr std::uint32_t kAlignment = 16;

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return CUDA_R_32F;
    case DType::float16: return CUDA_R_16F;
    case DType::bfloat16: return CUDA_R_16BF;
    default: throw Error(ExitCode::internal, fmt::format("no product has weights of type {}", dtype_name(dtype)));
  }
}

cublasLtMatrixLayoutOpaque_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols) {
  cublasLtMatrixLayoutOpaque_t result;
  check(cublasLtMatrixLayoutInit(&result, type, checked_cast<std::uint64_t>(rows), checked_cast<std::uint64_t>(cols),
                                 rows),
        "describing a matrix");
  return result;
}

template <class T>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t key, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, key, &value, sizeof value), "describing a product");
}

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

}  // namespace

void check(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::communication,
              fmt::format("{} failed: cuBLASLt reports \"{}\"", what, cublasLtGetStatusString(status)));
}

CublasLt make_cublas_lt() {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "starting cuBLASLt");
  return CublasLt(handle);
}

CublasLtProduct::CublasLtProduct(cublasLtHandle_t handle, const MatrixSpec& spec)
    : rows_(spec.rows), cols_(spec.cols), type_(cuda_type(spec.dtype)) {
  // cuBLASLt counts by columns: W [rows, cols] row-major is its [cols, rows], so y^T = op(W) x^T with op = transpose.
  check(cublasLtMatmulDescInit(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  const cublasOperation_t transpose = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(&operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
        "describing a product");

  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "describing a product");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::size_t{0});
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  for (const auto key : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(preference, key, kAlignment);

  Layouts shape = layouts(kChosenRows);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, &operation_, &shape.weights, &shape.x, &shape.y, &shape.y, &preference,
                                       1, &found, &count),
        fmt::format("choosing an algorithm for a {} product with weights [{}, {}]", dtype_name(spec.dtype), rows_,
                    cols_));
  if (count == 0)
    throw Error(ExitCode::communication,
                fmt::format("cuBLASLt has no {} product without split sums for weights [{}, {}] on this GPU",
                            dtype_name(spec.dtype), rows_, cols_),
                "use parallel.device: cpu");
  algorithm_ = found.algo;
}

CublasLtProduct::Layouts CublasLtProduct::layouts(std::int64_t x_rows) const {
  return {layout(type_, cols_, rows_), layout(type_, cols_, x_rows), layout(CUDA_R_32F, rows_, x_rows)};
}

void CublasLtProduct::run(cublasLtHandle_t handle, const void* weights, const Tensor& x, const Tensor& y,
                          cudaStream_t stream) const {
  if (!aligned(x.data) || !aligned(y.data))
    throw Error(ExitCode::internal,
                fmt::format("operands of a CUDA product must start at multiples of {} bytes", kAlignment));
  Layouts shape = layouts(x.rows);
  cublasLtMatmulDescOpaque_t operation = operation_;  // cuBLASLt's handles are pointers to what may change
  const float one = 1.0F;
  const float zero = 0.0F;
  check(cublasLtMatmul(handle, &operation, &one, weights, &shape.weights, x.data, &shape.x, &zero, y.data, &shape.y,
                       y.data, &shape.y, &algorithm_, nullptr, 0, stream),
        fmt::format("the product of {} rows with weights [{}, {}]", x.rows, rows_, cols_));
}

CudaMatrix::CudaMatrix(const MatrixSpec& spec, cublasLtHandle_t handle, cudaStream_t stream) : PackedMatrix(spec) {
  if (bytes() == 0) return;
  data_ = allocate_cuda(bytes(), stream);
  if (!spec.lookup_only && spec.leaf_ends.empty()) product_.emplace(handle, spec);
}

std::size_t CudaMatrix::bytes() const noexcept {
  return static_cast<std::size_t>(spec().rows * spec().cols) * dtype_size(spec().dtype);
}

void convert_row(const StoredMatrix& from, std::int64_t row, std::int64_t col, std::int64_t count, DType dtype,
                 std::byte* to) {
  const std::byte* source = from.data + row * from.row_stride + col * from.col_stride;
  const std::size_t size = dtype_size(dtype);
  if (from.dtype == dtype && from.col_stride == static_cast<std::int64_t>(size)) {
    std::memcpy(to, source, static_cast<std::size_t>(count) * size);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i, source += from.col_stride, to += size) {
    if (from.dtype == dtype) {
      std::memcpy(to, source, size);
      continue;
    }
    const float value = load_element(source, from.dtype, 0);
    const std::uint16_t half = dtype == DType::bfloat16 ? float_to_bfloat16(value) : float_to_float16(value);
    if (dtype == DType::float32)
      std::memcpy(to, &value, sizeof value);
    else
      std::memcpy(to, &half, sizeof half);
  }
}

}  // namespace tpinfer
