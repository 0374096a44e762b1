// cuBLASLt where it is part of the program: the tests' emulation.
#include "backend/cuda/cublas_lt.hpp"

namespace tpinfer {

const CublasLtApi& cublas_lt_api() {
  static constexpr CublasLtApi kApi{.create = cublasLtCreate,
                                    .destroy = cublasLtDestroy,
                                    .status_text = cublasLtGetStatusString,
                                    .create_operation = cublasLtMatmulDescCreate,
                                    .destroy_operation = cublasLtMatmulDescDestroy,
                                    .set_operation = cublasLtMatmulDescSetAttribute,
                                    .create_layout = cublasLtMatrixLayoutCreate,
                                    .destroy_layout = cublasLtMatrixLayoutDestroy,
                                    .create_preference = cublasLtMatmulPreferenceCreate,
                                    .destroy_preference = cublasLtMatmulPreferenceDestroy,
                                    .set_preference = cublasLtMatmulPreferenceSetAttribute,
                                    .choose = cublasLtMatmulAlgoGetHeuristic,
                                    .multiply = cublasLtMatmul};
  return kApi;
}

}  // namespace tpinfer
