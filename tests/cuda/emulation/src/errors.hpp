#pragma once

#include <string>

#include "cuda_runtime_api.h"

namespace cuda_emulation {

/// By CUDA's own name; ends the program when there is none.
cudaError_t error_named(const std::string& name);
/// Errors after which every further call of the process fails with the same.
bool stays(cudaError_t error);

}  // namespace cuda_emulation
