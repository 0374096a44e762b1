#include "output/file_checksum.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "core/bytes.hpp"
#include "core/file_handle.hpp"

namespace tpinfer {

namespace {

constexpr char kMark[] = {'T', 'P', 'I', 'S', 'U', 'M', '1', '\n'};
constexpr std::size_t kTrailerBytes = sizeof(kMark) + sizeof(std::uint64_t);
constexpr std::size_t kBlockBytes = std::size_t{4} << 20;

[[noreturn]] void throw_errno() { throw std::system_error(errno, std::generic_category()); }

std::uint64_t file_size(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw_errno();
  return static_cast<std::uint64_t>(info.st_size);
}

void read_at(int fd, std::span<std::byte> out, std::uint64_t offset) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) throw_errno();
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

/// Each block's hash seeds the next one's.
std::uint64_t hash_file(int fd, std::uint64_t size) {
  std::vector<std::byte> block(static_cast<std::size_t>(std::min<std::uint64_t>(size, kBlockBytes)));
  std::uint64_t hash = 0;
  for (std::uint64_t offset = 0; offset < size; offset += block.size()) {
    const auto part = std::span(block).first(static_cast<std::size_t>(std::min(size - offset, block.size())));
    read_at(fd, part, offset);
    hash = hash_bytes(part, hash);
  }
  return hash;
}

}  // namespace

void append_checksum(int fd) {
  const std::uint64_t size = file_size(fd), hash = hash_file(fd, size);
  std::byte trailer[kTrailerBytes];
  std::memcpy(trailer, kMark, sizeof(kMark));
  std::memcpy(trailer + sizeof(kMark), &hash, sizeof(hash));
  const ssize_t n = ::pwrite(fd, trailer, sizeof(trailer), static_cast<off_t>(size));
  if (n >= 0 && n != static_cast<ssize_t>(sizeof(trailer))) errno = ENOSPC;
  if (n != static_cast<ssize_t>(sizeof(trailer))) throw_errno();
}

ChecksumState check_checksum(const std::filesystem::path& file) {
  const FileHandle fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno();
  const std::uint64_t size = file_size(fd.get());
  if (size < kTrailerBytes) return ChecksumState::absent;
  std::byte trailer[kTrailerBytes];
  read_at(fd.get(), trailer, size - kTrailerBytes);
  if (std::memcmp(trailer, kMark, sizeof(kMark)) != 0) return ChecksumState::absent;
  std::uint64_t stored = 0;
  std::memcpy(&stored, trailer + sizeof(kMark), sizeof(stored));
  return hash_file(fd.get(), size - kTrailerBytes) == stored ? ChecksumState::right : ChecksumState::wrong;
}

}  // namespace tpinfer
