#define TPINFER_SIMD 3
#include "backend/cpu/kernels_impl.hpp"

namespace tpinfer {

const CpuKernels& avx512_bf16_kernels() noexcept { return kTable; }

}  // namespace tpinfer
