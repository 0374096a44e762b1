#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "job/job.hpp"

namespace tpinfer {

/// The smallest job, on three lines; tests append their own.
inline const std::string kSmallest = "model: {path: m}\nprompts: {file: p.jsonl}\noutput: {file: a.h5}\n";

inline Job parse(const std::string& text, const JobOverrides& overrides = {}) {
  return parse_job_text(text, "job.yaml", "/base", overrides);
}

/// The lines of the JobError that `text` must give; empty when it gave none.
inline std::vector<std::string> complaints(const std::string& text, const JobOverrides& overrides = {},
                                           const std::string& name = "job.yaml") {
  try {
    parse_job_text(text, name, "/base", overrides);
  } catch (const JobError& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.lines();
  }
  return {};
}

/// A folder for one test, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tpinfer-job-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tpinfer
