#include "checkpoint/weight_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/bytes.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr const char* kStartAgain = "start again when nothing writes to the folder any more";

// File systems whose pages come over a network (or through a program), a round trip for each fault.
bool is_remote(int fd) noexcept {
  static constexpr std::array<std::uint32_t, 13> kRemote{
      0x6969,      // NFS
      0x517B,      // SMB
      0xFF534D42,  // CIFS
      0xFE534D42,  // SMB 2
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x65735546,  // FUSE
      0x00C36400,  // Ceph
      0x5346414F,  // AFS
      0x01021997,  // 9P
      0x19830326,  // BeeGFS
      0xAAD7AAEA,  // PanFS
      0x20030528,  // OrangeFS
  };
  struct statfs info {};
  return ::fstatfs(fd, &info) == 0 &&
         std::ranges::find(kRemote, static_cast<std::uint32_t>(info.f_type)) != kRemote.end();
}

}  // namespace

WeightFile::WeightFile(const PlannedFile& planned, ReadMode mode) : file_(open_model_file(planned.path)) {
  if (file_.bytes != planned.bytes)
    fail_input(
        "{}: has {} bytes, but the plan was made for {}: the file changed in between, or this host has another copy "
        "(start again with the same files on every host)",
        file_.where, file_.bytes, planned.bytes);
  check_header(planned);
  if (planned.modified && file_.modified != *planned.modified)
    fail_input("{}: was changed after the plan was made from it ({})", file_.where, kStartAgain);
  mapped_ = mode == ReadMode::mapped || (mode == ReadMode::automatic && !is_remote(file_.fd.get()));
  ::posix_fadvise(file_.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

void WeightFile::check_header(const PlannedFile& planned) const {
  if (planned.header_bytes <= sizeof(std::uint64_t)) return;  // a plan without files of its own
  const std::uint64_t length = planned.header_bytes - sizeof(std::uint64_t);
  if (hash_bytes(read_bytes(file_, sizeof(std::uint64_t), length)) == planned.header_hash) return;
  fail_input(
      "{}: has another header than the one that the plan was made from: the file changed in between, or this host has "
      "another copy (start again with the same files on every host)",
      file_.where);
}

void WeightFile::will_need(std::uint64_t offset, std::uint64_t length) const noexcept {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 20;  // of a longer range the kernel fetches the beginning only
  for (std::uint64_t done = 0; done < length; done += kStep)
    ::posix_fadvise(file_.fd.get(), static_cast<off_t>(offset + done),
                    static_cast<off_t>(std::min(kStep, length - done)), POSIX_FADV_WILLNEED);
}

void WeightFile::read(std::uint64_t offset, std::span<std::byte> to, std::string_view tensor) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(file_.fd.get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_at(offset + done, tensor);
    done += static_cast<std::size_t>(got);
  }
}

void WeightFile::check_unchanged(std::string_view tensor) const {
  struct stat info {};
  if (::fstat(file_.fd.get(), &info) != 0)
    fail_input("{}: cannot be read any more: {}", file_.where, system_message(errno));
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (bytes < file_.bytes) fail_short(bytes, tensor);
  if (bytes != file_.bytes || modification_time(info) != file_.modified)
    fail_input("{}: was changed while the tensor {} was loaded from it ({})", file_.where, in_quotes(tensor),
               kStartAgain);
}

void WeightFile::fail_short(std::uint64_t bytes, std::string_view tensor) const {
  fail_input("{}: was cut from {} to {} bytes while the tensor {} was loaded from it ({})", file_.where, file_.bytes,
             bytes, in_quotes(tensor), kStartAgain);
}

void WeightFile::fail_at(std::uint64_t offset, std::string_view tensor) const {
  char byte = 0;
  const ssize_t got = ::pread(file_.fd.get(), &byte, 1, static_cast<off_t>(offset));
  const int number = got < 0 ? errno : EIO;
  struct stat info {};
  if (got == 0 && ::fstat(file_.fd.get(), &info) == 0) fail_short(static_cast<std::uint64_t>(info.st_size), tensor);
  throw Error(ExitCode::input,
              fmt::format("{}: the tensor {} cannot be read, from byte {} of the file on: {}", file_.where,
                          in_quotes(tensor), offset, system_message(number)),
              "the disk or the network has failed");
}

TensorReader::TensorReader(const WeightFile& file, std::string name, std::uint64_t offset, std::uint64_t bytes,
                           std::vector<std::byte>& staging)
    : file_(file), name_(std::move(name)), offset_(offset), staging_(staging) {
  if (!file.is_mapped()) return;
  mapping_ = MappedFile::map(file.file(), offset, bytes);
  guard_.emplace(mapping_.bytes());
}

std::span<const std::byte> TensorReader::get(std::uint64_t offset, std::uint64_t length) {
  if (guard_) return mapping_.bytes().subspan(offset, length);
  if (staging_.size() < length) staging_.resize(length);
  const std::span<std::byte> to(staging_.data(), length);
  copy(offset, to);
  return to;
}

void TensorReader::copy(std::uint64_t offset, std::span<std::byte> to) const {
  if (!guard_)
    file_.read(offset_ + offset, to, name_);
  else if (!to.empty())
    std::memcpy(to.data(), mapping_.bytes().data() + offset, to.size());
}

void TensorReader::will_need(std::uint64_t offset, std::uint64_t length) const noexcept {
  file_.will_need(offset_ + offset, length);
}

void TensorReader::finish() const {
  file_.check_unchanged(name_);
  if (guard_)
    if (const auto at = guard_->failed_at()) file_.fail_at(offset_ + *at, name_);
}

}  // namespace tpinfer
