#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "errors.hpp"
#include "grid.hpp"
#include "world.hpp"

namespace cuda_emulation {
namespace {

// Where programs, heaps, stacks and libraries lie: above 4 GiB, so that counts and sizes are not taken for pointers.
constexpr std::uint64_t kLowest = std::uint64_t{1} << 32;
constexpr std::uint64_t kHighest = std::uint64_t{1} << 47;

bool is_mapped(std::uint64_t address) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / 4096 * 4096), 4096, &resident) == 0;
}

bool fits(dim3 grid, dim3 block, std::size_t shared_bytes, const GpuConfig& config) {
  const std::uint64_t threads = static_cast<std::uint64_t>(block.x) * block.y * block.z;
  const std::size_t most_shared = config.major >= 9 ? 227 << 10 : 163 << 10;
  return threads > 0 && threads <= 1024 && block.z <= 64 && grid.x > 0 && grid.y > 0 && grid.z > 0 &&
         grid.x <= 0x7FFFFFFF && grid.y <= 65535 && grid.z <= 65535 && shared_bytes <= most_shared;
}

}  // namespace

void check_argument(const void* bytes, std::size_t size, int index) {
  World& w = world();
  for (std::size_t at = 0; at + 8 <= size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(bytes) + at, sizeof word);
    if (word < kLowest || word >= kHighest) continue;
    const auto* address = reinterpret_cast<const void*>(word);
    if (w.device_of(address) || w.pinned_at(address) || !is_mapped(word)) continue;
    char text[160];
    std::snprintf(text, sizeof text, "argument %d of a kernel holds %p at byte %zu, a pointer to pageable host memory",
                  index, address, at);
    die(text);
  }
}

cudaError_t launch_kernel(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                          std::function<void()> body) {
  Entry entry("cudaLaunchKernel");
  if (entry.error != cudaSuccess) return entry.error;
  World& w = world();
  const std::shared_ptr<Stream> target = w.stream(stream);
  if (!target) return finish(cudaErrorInvalidResourceHandle);
  if (!fits(grid, block, shared_bytes, w.devices[static_cast<std::size_t>(target->device)].config))
    return finish(cudaErrorInvalidConfiguration);
  ++w.counts.launches;
  KernelCall call{kernel, grid, block, shared_bytes, std::move(body)};
  return finish(enqueue(stream, "kernel", {.run = [call = std::move(call)] {
                          World& now = world();
                          if (const char* fault = now.faults.visit("kernel")) {
                            now.sticky = error_named(fault);
                            return Progress::moved;
                          }
                          run_grid(call);
                          ++now.counts.kernels;
                          return Progress::moved;
                        }}));
}

}  // namespace cuda_emulation
