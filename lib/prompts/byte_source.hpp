#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/file_handle.hpp"

namespace tpinfer {

/// Whether the reading of prompts is to end; asked often, by the thread that reads.
using StopReading = std::function<bool()>;
/// Thrown where it is.
struct ReadingStopped {};

/// The bytes of a file, or of standard input for "-", in pieces; what gzip packed is unpacked on the way, whatever the
/// file is called. Error(input) with the file's name for all that goes wrong. With `stopped` it never waits long for a
/// pipe without asking.
class ByteSource {
 public:
  explicit ByteSource(const std::string& path, StopReading stopped = {});
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;

  /// At most `size` bytes, at least one; 0 at the end.
  std::size_t read(char* to, std::size_t size);
  bool is_packed() const noexcept { return inflate_ != nullptr; }

 private:
  struct Inflate;

  void open(const std::string& path);
  void wait_for_data() const;
  std::size_t read_stored(char* to, std::size_t size);
  std::size_t read_file(char* to, std::size_t size);
  std::size_t read_packed(char* to, std::size_t size);

  std::string name_;
  StopReading stopped_;
  FileHandle file_;
  int descriptor_ = -1;  ///< of file_, or standard input
  std::string head_;     ///< read already, to see whether it is packed
  std::size_t head_used_ = 0;
  std::unique_ptr<Inflate> inflate_;
};

/// The lines of a source, numbered from 1.
class LineReader {
 public:
  /// Bytes of the longest line that is kept.
  static constexpr std::size_t kMostLine = std::size_t{1} << 28;

  explicit LineReader(const std::string& path, StopReading stopped = {}) : source_(path, std::move(stopped)) {}

  /// The next line as it stands, without its \n; a byte order mark at the beginning is left out. False at the end.
  /// Of a line longer than kMostLine the beginning.
  bool next(std::string& line);
  /// Of the last line.
  std::int64_t number() const noexcept { return number_; }
  bool was_too_long() const noexcept { return too_long_; }

  /// What follows, at least `bytes` of it where there are as many.
  std::string_view peek(std::size_t bytes);
  bool is_packed() const noexcept { return source_.is_packed(); }

 private:
  bool fill();

  ByteSource source_;
  std::string buffer_;
  std::size_t used_ = 0;
  std::int64_t number_ = 0;
  bool begun_ = false;
  bool too_long_ = false;
};

/// How messages call a prompt file.
std::string source_name(const std::string& path);

}  // namespace tpinfer
