#define TPINFER_SIMD 1
#include "backend/cpu/kernels_impl.hpp"

namespace tpinfer {

const CpuKernels& avx2_kernels() noexcept { return kTable; }

}  // namespace tpinfer
