#include "comm/nccl.hpp"
#include "core/error.hpp"

namespace tpinfer {

bool nccl_available() { return false; }

std::string nccl_reason() { return "this build has no CUDA backend: it was configured without the CUDA toolkit"; }

std::string nccl_version() { return {}; }
std::string nccl_build_version() { return {}; }

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator&, CudaQueue, const DeviceCommunicatorOptions&) {
  throw Error(ExitCode::usage, fmt::format("parallel.communication: nccl cannot be used: {}", nccl_reason()),
              "use parallel.communication: auto");
}

std::uint64_t cuda_communicator_bytes(int, int, const DeviceCommunicatorOptions&) { return 0; }

std::unique_ptr<DeviceCommunicator> make_cuda_communicator(Communicator&, CudaQueue, ParallelFor&,
                                                           const DeviceCommunicatorOptions&, bool) {
  throw Error(ExitCode::usage, fmt::format("GPUs cannot be connected: {}", nccl_reason()),
              "use parallel.device: cpu, or build tpinfer with -DTPINFER_CUDA=ON");
}

}  // namespace tpinfer
