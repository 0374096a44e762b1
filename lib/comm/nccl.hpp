#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/device_communicator.hpp"

namespace tpinfer {

/// Where collectives over GPUs are enqueued.
struct CudaQueue {
  int device = 0;
  void* stream = nullptr;  ///< the compute stream, a cudaStream_t; must outlive what is made for it
};

/// The collectives of ranks that compute on GPUs. Pointers given to it are to memory of queue.device, which must be the
/// calling thread's. Collective over `comm`; fails on all ranks alike with Error(communication) or Error(does_not_fit).
///
/// One rank: nothing leaves the GPU. Transport::automatic: NCCL where the build has it and no two ranks share a GPU
/// (`shared_gpus`), otherwise through host memory, with the reason in note(). nccl: nothing else. shm, mpi: through
/// host memory by that transport. Ends with a self-test. In a build without CUDA (no_cuda_communicator.cpp):
/// Error(usage).
std::unique_ptr<DeviceCommunicator> make_cuda_communicator(Communicator& comm, CudaQueue queue, ParallelFor& parallel,
                                                           const DeviceCommunicatorOptions& options, bool shared_gpus);

/// Bytes of device memory that it takes on this rank.
std::uint64_t cuda_communicator_bytes(int rank, int ranks, const DeviceCommunicatorOptions& options);

/// NCCL: in a build without it (no_nccl.cpp) nccl_available() is false, with the reason in nccl_reason(),
/// make_nccl_communicator throws Error(usage), and the version is empty.
bool nccl_available();
std::string nccl_reason();
std::string nccl_version();        ///< "2.28.9": of the library that runs
std::string nccl_build_version();  ///< of the header that was built with

/// Only for make_cuda_communicator.
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(Communicator& comm, CudaQueue queue,
                                                           const DeviceCommunicatorOptions& options);

}  // namespace tpinfer
