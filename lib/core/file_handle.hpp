#pragma once

#include <unistd.h>

#include "core/unique_handle.hpp"

namespace tpinfer {

struct FileDescriptorTraits {
  using Handle = int;
  static Handle empty() noexcept { return -1; }
  static void close(Handle fd) noexcept { ::close(fd); }
};

/// Owner of a POSIX file descriptor.
using FileHandle = UniqueHandle<FileDescriptorTraits>;

}  // namespace tpinfer
