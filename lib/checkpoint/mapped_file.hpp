#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "checkpoint/model_file.hpp"
#include "core/unique_handle.hpp"

namespace tpinfer {

struct MappingTraits {
  using Handle = void*;
  std::size_t length = 0;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle base) const noexcept;
};

/// A read-only private mapping of a file, or of a part of it. Nothing is read before it is looked at.
class MappedFile {
 public:
  MappedFile() = default;

  /// Maps the whole file. Error(input) when it cannot be opened, or has not exactly `expected_bytes`, which is what the
  /// plan was made from (touching a mapping beyond the end of its file would kill the process).
  static MappedFile open(const std::filesystem::path& path, std::uint64_t expected_bytes);
  /// Maps `length` bytes from `offset` on, of a file that must have `expected_bytes` in all.
  static MappedFile open(const std::filesystem::path& path, std::uint64_t expected_bytes, std::uint64_t offset,
                         std::uint64_t length);

  /// Maps `length` bytes from `offset` on of an open file.
  static MappedFile map(const ModelFile& file, std::uint64_t offset, std::uint64_t length);

  /// The bytes asked for; byte 0 is that at `offset`. Alignment is the file's own.
  std::span<const std::byte> bytes() const noexcept;

  /// Tells the kernel that these bytes (relative to bytes()) are wanted soon: it reads them ahead. Advice only.
  void will_need(std::uint64_t offset, std::uint64_t length) const noexcept;
  /// Gives back the pages that lie wholly inside this range; they leave this process's memory and are read again if
  /// they are looked at again.
  void release(std::uint64_t offset, std::uint64_t length) const noexcept;

 private:
  // from the start of the first page
  UniqueHandle<MappingTraits> mapping_;
  std::size_t skip_ = 0;  // of the first page, before bytes()
  std::size_t length_ = 0;
};

}  // namespace tpinfer
