#define TPINFER_SIMD 2
#include "backend/cpu/kernels_impl.hpp"

namespace tpinfer {

const CpuKernels& avx512_kernels() noexcept { return kTable; }

}  // namespace tpinfer
