#include "backend/cuda/cublas_lt.hpp"

#include "core/checked_cast.hpp"
#include "core/dtype.hpp"

namespace tpinfer {
namespace {

constexpr std::uint32_t kAlignment = 16;
constexpr std::size_t kWorkspace = std::size_t{32} << 20;

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::float16: return CUDA_R_16F;
    case DType::bfloat16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

}  // namespace

void CublasLtApi::check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::communication, fmt::format("{} failed: cuBLASLt reports \"{}\"", what, status_text(status)));
}

/// cuBLASLt counts by columns: W [rows, cols] row-major is its [cols, rows], so y^T = op(W) x^T with op = transpose.
struct CublasLtProducts::Plan {
  const CublasLtApi& api;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weights = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatrixLayout_t y = nullptr;
  cublasLtMatmulHeuristicResult_t chosen{};

  explicit Plan(const CublasLtApi& functions) : api(functions) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {weights, x, y})
      if (layout) api.destroy_layout(layout);
    if (operation) api.destroy_operation(operation);
  }
};

CublasLtProducts::CublasLtProducts(cudaStream_t stream) : api_(cublas_lt_api()), stream_(stream) {
  api_.check(api_.create(&handle_), "starting cuBLASLt");
  workspace_ = allocate_cuda(kWorkspace, stream);
}

CublasLtProducts::~CublasLtProducts() {
  plans_.clear();
  api_.destroy(handle_);
}

bool CublasLtProducts::takes(DType dtype, std::int64_t cols) {
  return cols * static_cast<std::int64_t>(dtype_size(dtype)) % kAlignment == 0;
}

const CublasLtProducts::Plan& CublasLtProducts::plan(std::int64_t rows, const Tensor& x) {
  std::unique_ptr<Plan>& plan = plans_[{x.dtype, rows, x.cols, x.rows}];
  if (plan) return *plan;
  auto made = std::make_unique<Plan>(api_);
  const auto layout = [&](cublasLtMatrixLayout_t& to, cudaDataType_t type, std::int64_t down, std::int64_t across) {
    api_.check(
        api_.create_layout(&to, type, checked_cast<std::uint64_t>(down), checked_cast<std::uint64_t>(across), down),
        "describing a matrix");
  };
  layout(made->weights, cuda_type(x.dtype), x.cols, rows);
  layout(made->x, cuda_type(x.dtype), x.cols, x.rows);
  layout(made->y, CUDA_R_32F, rows, x.rows);
  api_.check(api_.create_operation(&made->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  const cublasOperation_t transpose = CUBLAS_OP_T;
  api_.check(api_.set_operation(made->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
             "describing a product");
  cublasLtMatmulPreference_t preference = nullptr;
  api_.check(api_.create_preference(&preference), "describing a product");
  const cublasStatus_t limited =
      api_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof kWorkspace);
  int count = 0;
  const cublasStatus_t found = api_.choose(handle_, made->operation, made->weights, made->x, made->y, made->y,
                                           preference, 1, &made->chosen, &count);
  api_.destroy_preference(preference);
  const std::string what = fmt::format("choosing an algorithm for {} rows and {} weights [{}, {}]", x.rows,
                                       dtype_name(x.dtype), rows, x.cols);
  api_.check(limited, what);
  api_.check(found, what);
  if (count == 0)
    throw Error(ExitCode::communication,
                fmt::format("cuBLASLt has no product of {} rows with {} weights [{}, {}] on this GPU", x.rows,
                            dtype_name(x.dtype), rows, x.cols),
                "use engine.reproducible: batch");
  plan = std::move(made);
  return *plan;
}

void CublasLtProducts::run(const void* weights, std::int64_t rows, const Tensor& x, float* y) {
  const Plan& shape = plan(rows, x);
  const float one = 1.0F;
  const float zero = 0.0F;
  api_.check(api_.multiply(handle_, shape.operation, &one, weights, shape.weights, x.data, shape.x, &zero, y, shape.y,
                           y, shape.y, &shape.chosen.algo, workspace_.get(), shape.chosen.workspaceSize, stream_),
             fmt::format("the product of {} rows with weights [{}, {}]", x.rows, rows, x.cols));
}

}  // namespace tpinfer
