// What a job sees of a build with the CUDA toolkit for as long as CudaBackend lacks operations. Refers to nothing of
// the toolkit: cuBLASLt alone costs every process that links it 94 MB of relocated memory.
#include "backend/factory.hpp"
#include "core/error.hpp"

namespace tpinfer {

bool cuda_available() { return false; }

std::string cuda_reason() { return "the CUDA backend of this build is incomplete: attention is missing"; }

std::unique_ptr<Backend> make_cuda_backend(int device) {
  throw Error(ExitCode::usage, fmt::format("CUDA device {} cannot be used: {}", device, cuda_reason()),
              "use parallel.device: cpu");
}

}  // namespace tpinfer
