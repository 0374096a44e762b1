// The factory of builds with the CUDA toolkit.
#include "backend/cuda/cuda_backend.hpp"
#include "backend/factory.hpp"

namespace tpinfer {

bool cuda_available() { return cuda_reason().empty(); }

std::string cuda_reason() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return {};
  static_cast<void>(cudaGetLastError());
  if (status == cudaSuccess || status == cudaErrorNoDevice) return "CUDA sees no GPU on this machine";
  return fmt::format("CUDA reports \"{}\"", cudaGetErrorString(status));
}

std::unique_ptr<GpuBackend> make_gpu_backend(const GpuOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

std::unique_ptr<Backend> make_cuda_backend(int device) { return make_gpu_backend({.device = device}); }

}  // namespace tpinfer
