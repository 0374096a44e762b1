#pragma once

// What tests may ask of the emulation beside CUDA's own interface. The same is set for whole programs by environment:
//   TPINFER_EMULATION_GPUS     "80GiB*4" or "24GiB,used=1GiB,numa=1;16GiB": the GPUs of this host, separated by ';'. Of
//                              each: size, then key=value: used (by other programs), context (taken by each process
//                              that starts the GPU), name, uuid (GPU-...), pci, numa, cc (9.0), count. Default 1GiB*1.
//   TPINFER_EMULATION_DEVICES  "1,3": the GPUs that this process's cgroup lets through (--gpus-per-task)
//   CUDA_VISIBLE_DEVICES       as CUDA reads it: numbers, UUIDs or beginnings of UUIDs
//   TPINFER_EMULATION_STATE    a file through which processes see each other's use of memory
//   TPINFER_EMULATION_ORDER    late: work runs when the host waits for it and no sooner (default) | eager: at once |
//                              random:SEED: streams mixed at random, as far as events allow
//   TPINFER_EMULATION_FAIL     "cudaMalloc#3=cudaErrorMemoryAllocation;kernel#100=cudaErrorIllegalAddress@1": the third
//                              call fails, the 100th kernel that runs on MPI rank 1 fails. Points: names of functions
//                              of CUDA, cuBLASLt, NVML and NCCL; kernel; and of NCCL's work as it runs: allReduce,
//                              allGather, broadcast, send, recv, with an ncclResult_t or hang. "#3+": from the third
//                              on.
#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_emulation {

/// Forgets all: devices, memory, streams, errors; reads the environment again. No handle may be used afterwards.
void reset();

/// Work of any stream that is enqueued and has not run.
std::size_t pending_work();

struct Counts {
  std::uint64_t kernels = 0;   ///< run, in graphs too
  std::uint64_t launches = 0;  ///< enqueued one by one
  std::uint64_t graph_launches = 0;
  std::uint64_t copies = 0;            ///< run
  std::uint64_t synchronisations = 0;  ///< calls that made the host wait
  std::uint64_t allocations = 0;       ///< of device memory
  std::uint64_t collectives = 0;       ///< of NCCL, run
};
Counts counts();

/// Bytes of device memory and of pinned host memory that this process holds.
std::size_t device_bytes(int device);
std::size_t pinned_bytes();

}  // namespace cuda_emulation
