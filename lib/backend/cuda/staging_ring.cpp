#include "backend/cuda/staging_ring.hpp"

#include <algorithm>
#include <cstring>

namespace tpinfer {

StagingRing::StagingRing(std::size_t segments, std::size_t segment_bytes)
    : segment_bytes_(segment_bytes), memory_(allocate_pinned(segments * segment_bytes)) {
  done_.reserve(segments);
  for (std::size_t i = 0; i < segments; ++i) done_.push_back(make_event(EventKind::order));
}

std::byte* StagingRing::acquire() {
  // An event that was never recorded counts as done.
  check(cudaEventSynchronize(done_[next_].get()), "waiting for a copy to the device");
  return memory_.get() + next_ * segment_bytes_;
}

void StagingRing::submit(cudaStream_t stream) {
  check(cudaEventRecord(done_[next_].get(), stream), "recording a copy to the device");
  next_ = (next_ + 1) % done_.size();
}

void StagingRing::copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, segment_bytes_);
    std::byte* segment = acquire();
    std::memcpy(segment, source, part);
    check(cudaMemcpyAsync(target, segment, part, cudaMemcpyHostToDevice, stream), "copying to the device");
    submit(stream);
    target += part;
    source += part;
    bytes -= part;
  }
}

}  // namespace tpinfer
