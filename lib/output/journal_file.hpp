#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "core/file_handle.hpp"

namespace tpinfer {

/// FILE.journal of a result file.
std::filesystem::path journal_of(const std::filesystem::path& file);
/// True when there is one, also when it is a link or something else that a journal cannot be.
bool journal_exists(const std::filesystem::path& file);

/// An open, locked file that only grows. Created with the umask's rights, never through a link; while it is open no
/// other job, here or on another host of a shared folder, can open it so. All errors are Error(output) that name the
/// file, the cause and what to do; what was written before stays.
class JournalFile {
 public:
  /// Opens or creates. Error(output) when another job holds it for longer than `patience` seconds.
  explicit JournalFile(const std::filesystem::path& path, double patience = 3);

  const std::filesystem::path& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t size() const noexcept { return size_; }
  /// False on a file system that has no locks: then nobody is kept out.
  bool locked() const noexcept { return locked_; }

  void append(std::span<const std::byte> bytes);
  /// Cuts the file to its first `bytes`.
  void cut(std::uint64_t bytes);
  /// Everything that was appended is on the disk afterwards.
  void sync();
  /// The file's name too.
  void sync_folder();
  /// Removes the file for good; the lock ends with this object.
  void remove();

 private:
  bool open_once();
  bool lock();

  std::filesystem::path path_;
  FileHandle fd_;
  std::uint64_t size_ = 0;
  bool locked_ = false;
};

}  // namespace tpinfer
