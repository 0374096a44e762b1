#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace tpinfer {

/// A control group's folder.
struct CgroupFolder {
  std::filesystem::path path;
  bool version2 = false;
};

/// The folders whose `controller` ("memory", "cpu") holds for this process: its own control group and all groups above
/// it, version 1, 2 or both at once. `root`: where proc and sys are found.
std::vector<CgroupFolder> cgroup_folders(const std::filesystem::path& root, std::string_view controller);

}  // namespace tpinfer
