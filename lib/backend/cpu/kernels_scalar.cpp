#define TPINFER_SIMD 0
#include "backend/cpu/kernels_impl.hpp"

namespace tpinfer {

const CpuKernels& scalar_kernels() noexcept { return kTable; }

}  // namespace tpinfer
