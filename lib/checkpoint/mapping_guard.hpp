#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace tpinfer {

/// Lets a mapping of a file be read although the file may be cut, or its disk fail, at any moment: what cannot be read
/// gives zeros instead of killing the process by SIGBUS, and failed_at() tells of it afterwards. It counts for all
/// threads, while it lives. One at a time in a process; a SIGBUS elsewhere takes its usual course.
class MappingGuard {
 public:
  /// `bytes` of a private mapping. Error(internal) when another guard lives.
  explicit MappingGuard(std::span<const std::byte> bytes);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  /// The lowest byte of the span (or 0, before it on its page) that was looked at in vain. From its page to the
  /// mapping's end there are zeros now.
  std::optional<std::size_t> failed_at() const noexcept;
};

}  // namespace tpinfer
