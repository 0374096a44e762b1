#include "output/journal_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "core/error.hpp"
#include "output/part_file.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::milliseconds kNap{50};

constexpr int kKernelNotSupported = 524;  // ENOTSUPP of the kernel, which some network file systems let out

bool has_no_locks(int number) {
  return number == ENOSYS || number == ENOLCK || number == EOPNOTSUPP || number == EINVAL ||
         number == kKernelNotSupported;
}

}  // namespace

fs::path journal_of(const fs::path& file) { return file.string() + ".journal"; }

bool journal_exists(const fs::path& file) {
  struct stat info {};
  if (::lstat(journal_of(file).c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  fail_output(journal_of(file), errno);
}

JournalFile::JournalFile(const fs::path& path, double patience) : path_(path) {
  const auto start = std::chrono::steady_clock::now();
  while (!open_once()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(patience))
      throw Error(ExitCode::output, fmt::format("{}: another job is writing its answers there", path_.string()),
                  "wait until it has ended, or give another output.file");
    std::this_thread::sleep_for(kNap);
  }
}

// -> false: somebody else has it, or it went away in between
bool JournalFile::open_once() {
  fd_ = FileHandle(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!fd_ && errno == ELOOP)
    throw Error(ExitCode::output, fmt::format("cannot write {}: it is a link", path_.string()),
                "remove it or give another output.file");
  if (!fd_) fail_output(path_, errno);
  struct stat mine {};
  if (::fstat(fd_.get(), &mine) != 0) fail_output(path_, errno);
  if (!S_ISREG(mine.st_mode) || mine.st_nlink > 1)
    throw Error(ExitCode::output,
                fmt::format("cannot write {}: it is {}", path_.string(),
                            S_ISREG(mine.st_mode) ? "linked from another place too" : "no regular file"),
                "remove it or give another output.file");
  if (!lock()) return false;
  // the name may have gone, or stand for another file, since it was opened
  struct stat there {};
  if (::lstat(path_.c_str(), &there) != 0 || there.st_ino != mine.st_ino || there.st_dev != mine.st_dev) return false;
  if (::fstat(fd_.get(), &mine) != 0) fail_output(path_, errno);
  size_ = static_cast<std::uint64_t>(mine.st_size);
  return true;
}

// Byte-range locks reach other hosts on NFS, Lustre and GPFS; those of the open file (OFD) do not end when some other
// descriptor of the process is closed.
bool JournalFile::lock() {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  locked_ = ::fcntl(fd_.get(), F_OFD_SETLK, &whole) == 0;
  if (locked_ || has_no_locks(errno)) return true;
  if (errno == EAGAIN || errno == EACCES || errno == EINTR) return false;
  fail_output(path_, errno);
}

void JournalFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_output(path_, n == 0 ? ENOSPC : errno);
    size_ += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void JournalFile::cut(std::uint64_t bytes) {
  if (bytes >= size_) return;
  if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) fail_output(path_, errno);
  size_ = bytes;
}

void JournalFile::sync() {
  if (::fdatasync(fd_.get()) != 0) fail_output(path_, errno);
}

void JournalFile::sync_folder() { tpinfer::sync_folder(path_); }

void JournalFile::remove() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) fail_output(path_, errno);
  sync_folder();
}

}  // namespace tpinfer
