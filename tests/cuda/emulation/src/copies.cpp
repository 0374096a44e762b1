#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "world.hpp"

namespace cuda_emulation {
namespace {

constexpr std::size_t kUnit = 512;  // device memory is counted in these

std::size_t counted(std::size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

enum class Place { device, pinned, pageable, bad };

struct Plane {
  std::byte* data;
  std::size_t pitch;
};

// Bytes from the first to the last that rows of `width` at every `pitch` touch.
std::size_t span_of(std::size_t pitch, std::size_t width, std::size_t rows) {
  return rows == 0 || width == 0 ? 0 : (rows - 1) * pitch + width;
}

Place place_of(const void* data, std::size_t span) {
  World& w = world();
  if (Device* device = w.device_of(data)) {
    const Allocation* allocation = device->memory->find(data);
    const auto* first = static_cast<const std::byte*>(data);
    return allocation && first + span <= allocation->data + allocation->bytes ? Place::device : Place::bad;
  }
  if (const auto* range = w.pinned_at(data))
    return static_cast<const std::byte*>(data) + span <= range->first + range->second.first ? Place::pinned
                                                                                            : Place::bad;
  return Place::pageable;
}

bool direction_fits(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device;
  const bool from_device = from == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

void copy_rows(Plane to, Plane from, std::size_t width, std::size_t rows) {
  if (to.pitch == width && from.pitch == width) {
    std::memmove(to.data, from.data, width * rows);
    return;
  }
  for (std::size_t row = 0; row < rows; ++row)
    std::memmove(to.data + row * to.pitch, from.data + row * from.pitch, width);
}

// As CUDA documents it: pageable memory is read before the call returns and is written before the call returns;
// pinned memory is read and written when the stream comes there.
cudaError_t copy(Plane to, Plane from, std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream,
                 bool wait, std::unique_lock<std::recursive_mutex>& lock) {
  World& w = world();
  const std::shared_ptr<Stream> target = w.stream(stream);
  if (!target) return cudaErrorInvalidResourceHandle;
  if (width == 0 || rows == 0) return cudaSuccess;
  if (rows > 1 && (to.pitch < width || from.pitch < width)) return cudaErrorInvalidPitchValue;
  const Place to_place = place_of(to.data, span_of(to.pitch, width, rows));
  const Place from_place = place_of(from.data, span_of(from.pitch, width, rows));
  if (to_place == Place::bad || from_place == Place::bad) return cudaErrorInvalidValue;
  if (!direction_fits(kind, to_place, from_place)) return cudaErrorInvalidMemcpyDirection;
  const bool pageable = to_place == Place::pageable || from_place == Place::pageable;
  if (target->capture && pageable) {
    target->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  Operation operation;
  if (from_place == Place::pageable) {
    const auto kept = std::make_shared<std::vector<std::byte>>(width * rows);
    copy_rows({kept->data(), width}, from, width, rows);
    operation.run = [=] {
      copy_rows(to, {kept->data(), width}, width, rows);
      ++world().counts.copies;
      return Progress::moved;
    };
  } else {
    operation.run = [=] {
      copy_rows(to, from, width, rows);
      ++world().counts.copies;
      return Progress::moved;
    };
  }
  if (from_place == Place::pinned) {
    operation.host = from.data;
    operation.host_bytes = span_of(from.pitch, width, rows);
  } else if (to_place == Place::pinned) {
    operation.host = to.data;
    operation.host_bytes = span_of(to.pitch, width, rows);
  }
  const cudaError_t status = enqueue(stream, "copy", std::move(operation));
  if (status == cudaSuccess && !target->capture && (wait || to_place == Place::pageable)) {
    ++w.counts.synchronisations;
    run_until(end_of(target), lock);
  }
  return status;
}

bool still_used(const std::byte* data, std::size_t bytes) {
  World& w = world();
  const auto uses = [&](const Stream& stream) {
    for (const Operation& operation : stream.queue)
      if (operation.host && operation.host < data + bytes && data < operation.host + operation.host_bytes) return true;
    return false;
  };
  for (const auto& [handle, stream] : w.streams)
    if (uses(*stream)) return true;
  for (const auto& stream : w.ended)
    if (uses(*stream)) return true;
  return false;
}

cudaError_t allocate(void** data, std::size_t bytes) {
  World& w = world();
  *data = nullptr;
  if (w.devices.empty()) return cudaErrorNoDevice;
  if (refused_by_capture()) return cudaErrorStreamCaptureUnsupported;
  Device& device = w.start(current_device());
  if (bytes == 0) return cudaSuccess;
  if (counted(bytes) > w.free_bytes(device)) return cudaErrorMemoryAllocation;
  *data = device.memory->allocate(bytes);
  if (!*data) return cudaErrorMemoryAllocation;
  w.count_use(device, static_cast<std::int64_t>(counted(bytes)));
  ++w.counts.allocations;
  return cudaSuccess;
}

cudaError_t fill(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Place place = place_of(data, bytes);
  if (place != Place::device && place != Place::pinned) return cudaErrorInvalidValue;
  return enqueue(stream, "fill", {.run = [=] {
                   DeviceMemory::fill(static_cast<std::byte*>(data), value, bytes);
                   return Progress::moved;
                 }});
}

Plane plane(const void* data, std::size_t pitch) {
  return {const_cast<std::byte*>(static_cast<const std::byte*>(data)), pitch};
}

}  // namespace
}  // namespace cuda_emulation

using namespace cuda_emulation;

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  Entry entry("cudaMalloc");
  return entry.error != cudaSuccess ? entry.error : finish(allocate(data, bytes));
}

cudaError_t cudaFree(void* data) {
  Entry entry("cudaFree");
  if (!data) return finish(cudaSuccess);
  World& w = world();
  if (refused_by_capture()) return finish(cudaErrorStreamCaptureUnsupported);
  Device* device = w.device_of(data);
  if (!device) return finish(cudaErrorInvalidValue);
  run_all(static_cast<int>(device - w.devices.data()), entry.lock);  // it waits for the device, as the real one does
  const std::size_t bytes = device->memory->release(data);
  if (bytes == 0) return finish(cudaErrorInvalidValue);
  w.count_use(*device, -static_cast<std::int64_t>(counted(bytes)));
  return finish(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  Entry entry("cudaHostAlloc");
  if (entry.error != cudaSuccess) return entry.error;
  if (refused_by_capture()) return finish(cudaErrorStreamCaptureUnsupported);
  if (bytes == 0) return finish(cudaErrorInvalidValue);
  void* range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return finish(cudaErrorMemoryAllocation);
  world().pinned[static_cast<std::byte*>(range)] = {bytes, true};
  *data = range;
  return finish(cudaSuccess);
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) { return cudaHostAlloc(data, bytes, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void* data) {
  std::unique_lock lock(world().lock);
  World& w = world();
  if (!data) return cudaSuccess;
  const auto found = w.pinned.find(static_cast<std::byte*>(data));
  if (found == w.pinned.end() || !found->second.second) return finish(cudaErrorInvalidValue);
  if (w.sticky == cudaSuccess && still_used(found->first, found->second.first))
    die("pinned memory is freed while a copy that uses it is under way");
  munmap(data, found->second.first);
  w.pinned.erase(found);
  return finish(cudaSuccess);
}

cudaError_t cudaHostRegister(void* data, std::size_t bytes, unsigned) {
  Entry entry("cudaHostRegister");
  if (entry.error != cudaSuccess) return entry.error;
  if (world().pinned_at(data)) return finish(cudaErrorInvalidValue);
  world().pinned[static_cast<std::byte*>(data)] = {bytes, false};
  return finish(cudaSuccess);
}

cudaError_t cudaHostUnregister(void* data) {
  std::unique_lock lock(world().lock);
  World& w = world();
  const auto found = w.pinned.find(static_cast<std::byte*>(data));
  if (found == w.pinned.end() || found->second.second) return finish(cudaErrorInvalidValue);
  if (w.sticky == cudaSuccess && still_used(found->first, found->second.first))
    die("host memory is unregistered while a copy that uses it is under way");
  w.pinned.erase(found);
  return finish(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  Entry entry("cudaPointerGetAttributes");
  if (entry.error != cudaSuccess) return entry.error;
  World& w = world();
  auto* address = const_cast<void*>(data);
  if (const Device* device = w.device_of(data))
    *attributes = {cudaMemoryTypeDevice, static_cast<int>(device - w.devices.data()), address, nullptr};
  else if (w.pinned_at(data))
    *attributes = {cudaMemoryTypeHost, current_device(), address, address};
  else
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, address};
  return finish(cudaSuccess);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  Entry entry("cudaMemcpyAsync");
  if (entry.error != cudaSuccess) return entry.error;
  return finish(copy(plane(to, to_pitch), plane(from, from_pitch), width, rows, kind, stream, false, entry.lock));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                         std::size_t rows, cudaMemcpyKind kind) {
  Entry entry("cudaMemcpy");
  if (entry.error != cudaSuccess) return entry.error;
  if (refused_by_capture()) return finish(cudaErrorStreamCaptureImplicit);
  return finish(copy(plane(to, to_pitch), plane(from, from_pitch), width, rows, kind, nullptr, true, entry.lock));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpy2D(to, bytes, from, bytes, bytes, 1, kind);
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  Entry entry("cudaMemsetAsync");
  return entry.error != cudaSuccess ? entry.error : finish(fill(data, value, bytes, stream));
}

cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  Entry entry("cudaMemset");
  if (entry.error != cudaSuccess) return entry.error;
  if (refused_by_capture()) return finish(cudaErrorStreamCaptureImplicit);
  return finish(fill(data, value, bytes, nullptr));
}
