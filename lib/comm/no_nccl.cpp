#include "comm/nccl.hpp"
#include "core/error.hpp"

namespace tpinfer {

bool nccl_available() { return false; }

std::string nccl_reason() { return "this build has no NCCL: its header nccl.h was not found"; }

std::string nccl_version() { return {}; }
std::string nccl_build_version() { return {}; }

std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator&, CudaQueue, const DeviceCommunicatorOptions&) {
  throw Error(ExitCode::usage, fmt::format("parallel.communication: nccl cannot be used: {}", nccl_reason()),
              "use parallel.communication: auto");
}

}  // namespace tpinfer
