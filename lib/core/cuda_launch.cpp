#include "core/cuda_launch.cuh"

#include "core/cuda_handles.hpp"

namespace tpinfer {

void check_launch(cudaError_t status) { check(status, "starting a kernel"); }

}  // namespace tpinfer
