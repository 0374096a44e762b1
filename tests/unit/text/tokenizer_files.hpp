#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"

namespace tpinfer::test {

inline const std::filesystem::path kData = TPINFER_TEST_DATA;
inline const std::filesystem::path kShared = TPINFER_SHARED;

/// A folder that goes away with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tpinfer-text-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

 private:
  std::filesystem::path path_;
};

inline std::vector<Json> read_lines(const std::filesystem::path& file) {
  std::vector<Json> records;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) records.push_back(Json::parse(line));
  return records;
}

/// The byte-level tokenizer of the random models, to be changed and written by tests.
inline Json byte_level_document() { return read_json_file((kData / "models/rand-llama-tied/tokenizer.json").string()); }

}  // namespace tpinfer::test
