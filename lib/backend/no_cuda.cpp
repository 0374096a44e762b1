#include "backend/cuda/device_choice.hpp"
#include "backend/factory.hpp"
#include "core/error.hpp"

namespace tpinfer {

bool cuda_available() { return false; }

std::string cuda_reason() { return "this build has no CUDA backend: it was configured without the CUDA toolkit"; }

std::vector<GpuFacts> survey_gpus() { return {}; }

std::unique_ptr<Backend> make_cuda_backend(int device) { return make_gpu_backend({.device = device}); }

std::unique_ptr<GpuBackend> make_gpu_backend(const GpuOptions& options) {
  throw Error(ExitCode::usage, fmt::format("CUDA device {} cannot be used: {}", options.device, cuda_reason()),
              "use parallel.device: cpu, or build tpinfer with -DTPINFER_CUDA=ON");
}

}  // namespace tpinfer
