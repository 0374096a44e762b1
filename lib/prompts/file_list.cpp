#include "prompts/file_list.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/error.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

struct GlobResult {
  glob_t list{};
  GlobResult() = default;
  ~GlobResult() { ::globfree(&list); }
  GlobResult(const GlobResult&) = delete;
  GlobResult& operator=(const GlobResult&) = delete;
};

std::vector<std::string> matches(const std::string& pattern) {
  GlobResult found;
  const int result = ::glob(pattern.c_str(), GLOB_MARK, nullptr, &found.list);
  if (result != 0 && result != GLOB_NOMATCH) fail_input("{}: the files of this pattern cannot be listed", pattern);
  std::vector<std::string> files;
  for (std::size_t i = 0; result == 0 && i < found.list.gl_pathc; ++i) {
    const std::string path = found.list.gl_pathv[i];
    if (!path.ends_with('/')) files.push_back(path);  // folders are marked so
  }
  if (files.empty())
    throw Error(ExitCode::input, fmt::format("{}: no file matches this pattern", pattern), "see prompts.file");
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> expand_prompt_files(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code ec;
    // a file may really be called so
    if (name.find_first_of("*?[") == std::string::npos || fs::exists(name, ec)) {
      files.push_back(name);
    } else {
      for (std::string& file : matches(name)) files.push_back(std::move(file));
    }
  }
  std::set<std::string> seen;
  for (const std::string& file : files)
    if (!seen.insert(file).second)
      throw Error(ExitCode::input, fmt::format("{}: prompts.file names this file twice", file),
                  "a list or pattern must give each file once");
  return files;
}

std::vector<std::string> file_labels(const std::vector<std::string>& files) {
  std::optional<fs::path> common;
  for (const std::string& file : files) {
    if (file == "-") continue;
    const fs::path folder = fs::path(file).parent_path();
    if (!common) common = folder;
    const auto [end, unused] = std::mismatch(common->begin(), common->end(), folder.begin(), folder.end());
    fs::path shared;
    for (auto part = common->begin(); part != end; ++part) shared /= *part;
    common = shared;
  }
  std::vector<std::string> labels;
  for (const std::string& file : files)
    labels.push_back(file == "-" ? "stdin" : fs::path(file).lexically_relative(*common).string());
  return labels;
}

}  // namespace tpinfer
