#pragma once

#include <cublasLt.h>

#include <map>
#include <memory>
#include <string_view>
#include <tuple>

#include "core/cuda_handles.hpp"
#include "core/tensor.hpp"

namespace tpinfer {

/// The functions of cuBLASLt that are called. The library is opened when products are first wanted from it: linked, it
/// would cost every process 94 MB of relocated memory.
struct CublasLtApi {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusString) status_text = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  /// Throws Error(communication) when `status` is no success.
  void check(cublasStatus_t status, std::string_view what) const;
};

/// Opens the library of the version of this build's header; Error(usage) that names it when there is none. (Tests link
/// another definition, of the emulation's functions.)
const CublasLtApi& cublas_lt_api();

/// Products in whatever order is fastest, by cuBLASLt: each shape gets one algorithm, chosen when it first comes.
class CublasLtProducts {
 public:
  explicit CublasLtProducts(cudaStream_t stream);
  ~CublasLtProducts();
  CublasLtProducts(const CublasLtProducts&) = delete;
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  /// False when a matrix does not start its rows at multiples of 16 bytes.
  static bool takes(DType dtype, std::int64_t cols);
  /// y [x.rows, rows] float32 = x [x.rows, cols] w^T, w [rows, cols] of the type of x.
  void run(const void* weights, std::int64_t rows, const Tensor& x, float* y);

 private:
  struct Plan;
  const Plan& plan(std::int64_t rows, const Tensor& x);

  const CublasLtApi& api_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  CudaMemory workspace_;
  std::map<std::tuple<DType, std::int64_t, std::int64_t, std::int64_t>, std::unique_ptr<Plan>> plans_;
};

}  // namespace tpinfer
