#pragma once

#include <memory>
#include <string>

#include "comm/device_communicator.hpp"

namespace tpinfer {

/// Where collectives over GPUs are enqueued.
struct CudaQueue {
  int device = 0;
  void* stream = nullptr;  ///< the compute stream, a cudaStream_t
};

/// While there is no complete CUDA backend (no_nccl.cpp) nccl_available() is false, with the reason in nccl_reason(),
/// and make_nccl_device_communicator throws Error(usage).
bool nccl_available();
std::string nccl_reason();

/// Collective over `comm`: one GPU a rank, different ones. Pointers given to it are to memory of that GPU. The stream
/// must outlive it. Fails on all ranks alike with Error(communication) or Error(does_not_fit), or after options.timeout
/// where a rank is missing.
std::unique_ptr<DeviceCommunicator> make_nccl_device_communicator(Communicator& comm, CudaQueue queue,
                                                                  const DeviceCommunicatorOptions& options);

}  // namespace tpinfer
