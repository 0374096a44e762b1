#include "comm/nccl.hpp"

namespace tpinfer {

bool nccl_available() { return false; }

std::string nccl_reason() { return "NCCL connects CUDA devices, and this build has no complete CUDA backend"; }

std::unique_ptr<DeviceCommunicator> make_nccl_device_communicator(Communicator&, CudaQueue,
                                                                  const DeviceCommunicatorOptions&) {
  throw Error(ExitCode::usage, fmt::format("parallel.communication: nccl cannot be used: {}", nccl_reason()),
              "use parallel.communication: auto");
}

}  // namespace tpinfer
