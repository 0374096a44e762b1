#pragma once

#include <vector>

#include "core/cuda_handles.hpp"

namespace tpinfer {

/// Pinned host memory in equal segments, used in turn, that copies to the device start from: the caller's own memory is
/// free again as soon as it was written to a segment, and the copy runs beside the host.
class StagingRing {
 public:
  StagingRing(std::size_t segments, std::size_t segment_bytes);

  std::size_t segment_bytes() const noexcept { return segment_bytes_; }
  std::size_t segments() const noexcept { return done_.size(); }
  /// Number of the segment that acquire() gave last and submit() will close.
  std::size_t current() const noexcept { return next_; }
  /// The next segment, to be written now; waits for the copy that used it last.
  std::byte* acquire();
  /// The copies from the segment of the last acquire() stand in `stream`; nothing writes there before they are done.
  void submit(cudaStream_t stream);
  /// Copies any number of bytes in the order of `stream`.
  void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream);

 private:
  std::size_t segment_bytes_;
  PinnedMemory memory_;
  std::vector<CudaEvent> done_;  ///< one a segment
  std::size_t next_ = 0;
};

}  // namespace tpinfer
