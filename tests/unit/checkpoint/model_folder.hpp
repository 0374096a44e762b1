#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "core/error.hpp"

namespace tpinfer::test_files {

namespace fs = std::filesystem;

/// A folder of its own, gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tpinfer_checkpoint_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path operator/(std::string_view name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline void write_file(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::string length_field(std::uint64_t length) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);  // the tests run on little-endian machines, as the program does
  return text;
}

/// A safetensors file of this header and `data_bytes` bytes.
inline std::string safetensors_file(std::string_view header, std::size_t data_bytes) {
  return length_field(header.size()) + std::string(header) + std::string(data_bytes, '\x11');
}

/// `"NAME":{...}` of a float32 matrix.
inline std::string f32_entry(std::string_view name, std::int64_t rows, std::int64_t cols, std::uint64_t begin) {
  return fmt::format("\"{}\":{{\"dtype\":\"F32\",\"shape\":[{},{}],\"data_offsets\":[{},{}]}}", name, rows, cols, begin,
                     begin + static_cast<std::uint64_t>(4 * rows * cols));
}

/// A header of these entries.
inline std::string header_of(const std::vector<std::string>& entries) {
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

/// A sound file with the tensors a [2,3] and b [1,2], 32 bytes of data.
inline std::string sound_file() {
  return safetensors_file(header_of({f32_entry("a", 2, 3, 0), f32_entry("b", 1, 2, 24)}), 32);
}

/// The complaint of `call` when it is an Error of that code; "no complaint" and the like otherwise.
inline std::string complaint(const std::function<void()>& call, ExitCode code = ExitCode::input) {
  try {
    call();
  } catch (const Error& e) {
    return e.code() == code ? e.what() : fmt::format("wrong exit code {}: {}", static_cast<int>(e.code()), e.what());
  } catch (const std::exception& e) {
    return std::string("not an Error: ") + e.what();
  }
  return "no complaint";
}

inline std::string open_complaint(const fs::path& folder) {
  return complaint([&] { Checkpoint::open(folder, Log()); });
}

inline ::testing::AssertionResult mentions(const std::string& text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (text.find(word) == std::string::npos)
      return ::testing::AssertionFailure() << "\"" << word << "\" is not in: " << text;
  return ::testing::AssertionSuccess();
}

}  // namespace tpinfer::test_files
