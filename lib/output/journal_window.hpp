#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "output/journal_format.hpp"

namespace tpinfer {

/// A journal's bytes at any place, mostly read in order. Error of `code` that names the file where it cannot be read.
class JournalWindow {
 public:
  JournalWindow(int fd, std::string name, ExitCode code) : fd_(fd), name_(std::move(name)), code_(code) {
    look_again();
  }

  /// The file as it is now, which may have grown or been cut.
  void look_again();
  std::uint64_t size() const noexcept { return size_; }
  /// At most `count` bytes from `offset` on; fewer at the file's end.
  std::span<const std::byte> at(std::uint64_t offset, std::uint64_t count);

 private:
  void load(std::uint64_t offset, std::uint64_t count);
  [[noreturn]] void fail(int number) const;

  int fd_;
  std::string name_;
  ExitCode code_;
  std::uint64_t size_ = 0;
  std::uint64_t begin_ = 0;  ///< of bytes_ in the file
  std::vector<std::byte> bytes_;
};

struct JournalRecord {
  JournalKind kind{};
  std::uint64_t begin = 0, end = 0;  ///< in the file
  bool sound = false;
};

/// The record at `offset`; where there is none the next one, with all between skipped; nothing up to the file's end.
/// Linear in the file's size: each byte is looked at once for a header, and once inside a payload.
std::optional<JournalRecord> next_journal_record(JournalWindow& file, std::uint64_t offset);

}  // namespace tpinfer
