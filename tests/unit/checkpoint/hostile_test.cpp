// The broken folders of the shared generator: each must end as its expected.json says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "core/json.hpp"
#include "model_folder.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
using test_files::TemporaryFolder;

// Faults of files, headers and index are the checkpoint's to see; the others (config, tokenizer, which tensors there
// are, values) must pass here.
bool is_ours(const std::string& name) {
  if (name == "tensor_in_two_shards") return true;
  if (name == "weights_nan" || name == "weights_inf") return false;
  static constexpr std::string_view kStarts[] = {"header_", "file_",    "entry_", "bytes_", "offsets_",
                                                 "shape_",  "dtype_",   "shard_", "index_", "link_",
                                                 "lfs_",    "weights_", "bin_"};
  return std::any_of(std::begin(kStarts), std::end(kStarts), [&](std::string_view s) { return name.starts_with(s); });
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

TEST(Hostile, EveryFolderEndsAsExpected) {
  const fs::path script = fs::path(TPINFER_SHARED) / "tools/checkpoints/make_hostile.py";
  if (!fs::exists(script)) GTEST_SKIP() << script << " is not there";
  if (std::system("/usr/bin/python3 -c 'import numpy' >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "the generator needs /usr/bin/python3 with numpy";
  const TemporaryFolder folder;
  const std::string command =
      fmt::format("/usr/bin/python3 -B '{}' '{}' >/dev/null", script.string(), folder.path().string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  int refused = 0;
  int opened = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    const Json expected = read_json_file((entry.path() / "expected.json").string());
    if (expected.value("skip_if_root", false) && ::geteuid() == 0) continue;
    const std::string told = test_files::open_complaint(entry.path());
    if (!is_ours(name)) {
      EXPECT_EQ(told, "no complaint") << name;
      ++opened;
      continue;
    }
    ++refused;
    EXPECT_EQ(expected["exit"], 3) << name;
    EXPECT_NE(told, "no complaint") << name;
    for (const auto& word : expected["must_mention"])
      EXPECT_NE(lower(told).find(lower(word.get<std::string>())), std::string::npos) << name << ": " << word << "\n"
                                                                                     << told;
  }
  EXPECT_GE(refused, 48);
  EXPECT_GE(opened, 40);
}

}  // namespace
}  // namespace tpinfer
