#pragma once

#include <cstddef>

#include "core/unique_handle.hpp"

namespace tpinfer {

struct MappedMemoryTraits {
  using Handle = void*;
  std::size_t bytes = 0;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle data) const noexcept;
};

/// Owner of zeroed anonymous memory, page aligned; from 2 MiB on it is aligned to 2 MiB and asks for huge pages.
class HugeMemory {
 public:
  HugeMemory() = default;
  /// Error(does_not_fit) when the system has no such room.
  explicit HugeMemory(std::size_t bytes);

  std::byte* data() const noexcept { return static_cast<std::byte*>(handle_.get()); }
  /// What was asked for, rounded up to whole pages.
  std::size_t bytes() const noexcept { return handle_ ? handle_.traits().bytes : 0; }

 private:
  UniqueHandle<MappedMemoryTraits> handle_;
};

}  // namespace tpinfer
