#include "memory/cgroup.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "memory/proc_text.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

// A mounted hierarchy: the group `inside` (as /proc/self/cgroup spells groups) is seen at `at`.
struct Mount {
  fs::path at;
  std::string inside;
  bool version2 = false;
};

fs::path below(const fs::path& root, std::string_view absolute) { return root / fs::path(absolute).relative_path(); }

bool has_word(std::string_view list, std::string_view word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "31 23 0:28 INSIDE AT OPTIONS [more ...] - TYPE SOURCE SUPER_OPTIONS"
std::vector<Mount> mounts_of(const fs::path& root, std::string_view mountinfo, std::string_view controller) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto front = split(line.substr(0, dash), ' ');
    const auto back = split(line.substr(dash + 3), ' ');
    if (front.size() < 6 || back.size() < 3) continue;
    const bool version2 = back[0] == "cgroup2";
    if (!version2 && !(back[0] == "cgroup" && has_word(back[2], controller))) continue;
    mounts.push_back({below(root, front[4]), std::string(front[3]), version2});
  }
  return mounts;
}

// This process's group in the hierarchy: "4:cpu,memory:/path" or, version 2, "0::/path".
std::optional<std::string> group_of(std::string_view cgroup, bool version2, std::string_view controller) {
  for (const std::string_view line : split(cgroup, '\n')) {
    const auto first = line.find(':');
    if (first == std::string_view::npos) continue;
    const auto second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? line.starts_with("0::") : has_word(controllers, controller))
      return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

// The folders from this process's group up to the mount point.
std::vector<fs::path> folders_up(const Mount& mount, const std::string& group) {
  fs::path relative = fs::path(group).lexically_relative(mount.inside);
  // a container may see only a part of the hierarchy, mounted as if it were all of it
  if (relative.empty() || *relative.begin() == "..") relative = ".";
  const fs::path top = mount.at.lexically_normal();
  fs::path folder = (top / relative).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "a/." became "a/"
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) folder = top;
  std::vector<fs::path> folders{folder};
  while (folder != top && folder != folder.parent_path()) folders.push_back(folder = folder.parent_path());
  return folders;
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(const fs::path& root, std::string_view controller) {
  const auto cgroup = read_proc_text(root / "proc/self/cgroup");
  const auto mountinfo = read_proc_text(root / "proc/self/mountinfo");
  std::vector<CgroupFolder> folders;
  if (!cgroup || !mountinfo) return folders;
  for (const Mount& mount : mounts_of(root, *mountinfo, controller)) {
    const auto group = group_of(*cgroup, mount.version2, controller);
    if (!group) continue;
    for (fs::path& folder : folders_up(mount, *group)) folders.push_back({std::move(folder), mount.version2});
  }
  return folders;
}

}  // namespace tpinfer
