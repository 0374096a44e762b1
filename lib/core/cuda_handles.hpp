#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.hpp"
#include "core/unique_handle.hpp"
#include "core/units.hpp"

/// Owners of CUDA's handles and the one way to look at its status codes, for the files of backend/ and comm/ that are
/// compiled where the toolkit is; nothing else may include it. All acts on the calling thread's current device.
namespace tpinfer {

/// Throws Error(communication), the code of device failures, when `status` is no success. CUDA reports failures of
/// enqueued work at a later call, so `what` is where it was noticed.
inline void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // so that the next launch does not report it again
  throw Error(ExitCode::communication, fmt::format("{} failed: CUDA reports \"{}\" ({})", what,
                                                   cudaGetErrorString(status), cudaGetErrorName(status)));
}

struct CudaStreamTraits {
  using Handle = cudaStream_t;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle stream) const noexcept { cudaStreamDestroy(stream); }
};
using CudaStream = UniqueHandle<CudaStreamTraits>;

/// A stream that does not wait for the legacy default stream.
inline CudaStream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return CudaStream(stream);
}

struct CudaEventTraits {
  using Handle = cudaEvent_t;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle event) const noexcept { cudaEventDestroy(event); }
};
using CudaEvent = UniqueHandle<CudaEventTraits>;

enum class EventKind { order, timing };
inline CudaEvent make_event(EventKind kind) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, kind == EventKind::timing ? cudaEventDefault : cudaEventDisableTiming),
        "making an event");
  return CudaEvent(event);
}

struct CudaMemoryTraits {
  using Handle = void*;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle data) const noexcept { cudaFree(data); }
};
using CudaMemory = UniqueHandle<CudaMemoryTraits>;

/// `bytes` of device memory, zeroed in the order of `stream`. Error(does_not_fit) with the sizes when there is no room.
inline CudaMemory allocate_cuda(std::size_t bytes, cudaStream_t stream) {
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    int device = 0;
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check(cudaGetDevice(&device), "asking for the current device");
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
    throw Error(ExitCode::does_not_fit,
                fmt::format("CUDA device {} has no room for {}: {} of its {} are free", device, format_bytes(bytes),
                            format_bytes(free_bytes), format_bytes(total_bytes)),
                "end other programs on that GPU, lower memory.kv_cache or use more ranks");
  }
  check(status, "allocating device memory");
  CudaMemory memory(data);
  if (bytes > 0) check(cudaMemsetAsync(data, 0, bytes, stream), "zeroing device memory");
  return memory;
}

struct PinnedMemoryTraits {
  using Handle = std::byte*;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle data) const noexcept { cudaFreeHost(data); }
};
using PinnedMemory = UniqueHandle<PinnedMemoryTraits>;

inline PinnedMemory allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  check(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), "allocating pinned host memory");
  return PinnedMemory(static_cast<std::byte*>(data));
}

}  // namespace tpinfer
