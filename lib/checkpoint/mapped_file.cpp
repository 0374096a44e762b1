#include "checkpoint/mapped_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/checked_cast.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

std::size_t page_size() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

void MappingTraits::close(Handle base) const noexcept { ::munmap(base, length); }

MappedFile MappedFile::open(const std::filesystem::path& path, std::uint64_t expected_bytes) {
  return open(path, expected_bytes, 0, expected_bytes);
}

MappedFile MappedFile::open(const std::filesystem::path& path, std::uint64_t expected_bytes, std::uint64_t offset,
                            std::uint64_t length) {
  const ModelFile file = open_model_file(path);
  if (file.bytes != expected_bytes)
    fail_input(
        "{}: has {} bytes, but the plan was made for {}: the file changed in between, or this host has another "
        "copy (start again with the same files on every host)",
        file.where, file.bytes, expected_bytes);
  return map(file, offset, length);
}

MappedFile MappedFile::map(const ModelFile& file, std::uint64_t offset, std::uint64_t length) {
  if (offset > file.bytes || length > file.bytes - offset)
    throw Error(ExitCode::internal, fmt::format("{}: bytes {} and {} more lie beyond its {} bytes", file.where, offset,
                                                length, file.bytes));
  MappedFile mapped;
  if (length == 0) return mapped;  // an empty mapping is none
  mapped.skip_ = static_cast<std::size_t>(offset % page_size());
  mapped.length_ = checked_cast<std::size_t>(length);
  const std::size_t whole = mapped.skip_ + mapped.length_;
  void* base = ::mmap(nullptr, whole, PROT_READ, MAP_PRIVATE, file.fd.get(), static_cast<off_t>(offset - mapped.skip_));
  if (base == MAP_FAILED)
    fail_input("{}: {} bytes of it cannot be mapped: {}", file.where, whole, system_message(errno));
  mapped.mapping_ = UniqueHandle<MappingTraits>(base, {whole});
  return mapped;
}

std::span<const std::byte> MappedFile::bytes() const noexcept {
  if (!mapping_) return {};
  return {static_cast<const std::byte*>(mapping_.get()) + skip_, length_};
}

void MappedFile::will_need(std::uint64_t offset, std::uint64_t length) const noexcept {
  if (!mapping_ || offset >= length_) return;
  const std::size_t begin = (skip_ + static_cast<std::size_t>(offset)) / page_size() * page_size();
  const std::size_t end = skip_ + static_cast<std::size_t>(offset + std::min<std::uint64_t>(length, length_ - offset));
  ::madvise(static_cast<std::byte*>(mapping_.get()) + begin, end - begin, MADV_WILLNEED);
}

void MappedFile::release(std::uint64_t offset, std::uint64_t length) const noexcept {
  if (!mapping_ || offset >= length_) return;
  const std::size_t page = page_size();
  const std::size_t whole = skip_ + length_;
  // nothing else lies on the first and the last page's outer part: they go with the range that reaches them
  const std::size_t from = offset == 0 ? 0 : skip_ + static_cast<std::size_t>(offset);
  const std::size_t to = skip_ + static_cast<std::size_t>(offset + std::min<std::uint64_t>(length, length_ - offset));
  const std::size_t begin = (from + page - 1) / page * page;
  const std::size_t end = to == whole ? (whole + page - 1) / page * page : to / page * page;
  if (begin < end) ::madvise(static_cast<std::byte*>(mapping_.get()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace tpinfer
