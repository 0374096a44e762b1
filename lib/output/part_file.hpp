#pragma once

#include <filesystem>
#include <string_view>

#include "core/file_handle.hpp"

namespace tpinfer {

// `option`: where the user named the file, for hints.
inline constexpr const char* kOutputOption = "output.file";

/// True when `file` exists. Error(output) when it is a folder or something else that a result cannot replace.
bool output_exists(const std::filesystem::path& file, const char* option = kOutputOption);

/// Proves before any loading that `file` can be written: its folder exists and takes a new file. Error(output) says
/// what is wrong and what to do.
void check_output_place(const std::filesystem::path& file, const char* option = kOutputOption);

/// Throws Error(output): `file` cannot be written because of errno value `number`, and what to do about it.
[[noreturn]] void fail_output(const std::filesystem::path& file, int number, const char* option = kOutputOption);
/// Makes durable that `file` has its name, or has it no more. Error(output).
void sync_folder(const std::filesystem::path& file, const char* option = kOutputOption);

/// A file that appears under its name only when it is whole: written as FILE.part, synced, renamed. The .part is
/// created fresh (never through a link that lies there), with the umask's rights, and goes when commit() was not
/// reached. All errors are Error(output).
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& file, const char* option = kOutputOption);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::filesystem::path& path() const { return part_; }
  int fd() const { return fd_.get(); }
  void write(std::string_view bytes);
  /// Syncs the content, renames it to FILE and syncs the folder.
  void commit();

 private:
  std::filesystem::path file_, part_;
  const char* option_;
  FileHandle fd_;
  bool committed_ = false;
};

}  // namespace tpinfer
