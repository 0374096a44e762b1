#include "backend/factory.hpp"
#include "core/error.hpp"

namespace tpinfer {

bool cuda_available() { return false; }

std::string cuda_reason() { return "this build has no CUDA backend: it was configured without the CUDA toolkit"; }

std::unique_ptr<Backend> make_cuda_backend(int device) {
  throw Error(ExitCode::usage, fmt::format("CUDA device {} cannot be used: {}", device, cuda_reason()),
              "use parallel.device: cpu, or build tpinfer with -DTPINFER_CUDA=ON");
}

}  // namespace tpinfer
