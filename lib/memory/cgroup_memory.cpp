#include "memory/cgroup_memory.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

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

// Limits above this are "none": version 1 says 2^63 rounded down to a page.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

fs::path below(const fs::path& root, std::string_view absolute) { return root / fs::path(absolute).relative_path(); }

bool has_word(std::string_view list, std::string_view word) {
  const auto words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "31 23 0:28 INSIDE AT OPTIONS [more ...] - TYPE SOURCE SUPER_OPTIONS"
std::vector<Mount> memory_mounts(const fs::path& root, std::string_view mountinfo) {
  std::vector<Mount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto front = split(line.substr(0, dash), ' ');
    const auto back = split(line.substr(dash + 3), ' ');
    if (front.size() < 6 || back.size() < 3) continue;
    const bool version2 = back[0] == "cgroup2";
    if (!version2 && !(back[0] == "cgroup" && has_word(back[2], "memory"))) continue;
    mounts.push_back({below(root, front[4]), std::string(front[3]), version2});
  }
  return mounts;
}

// This process's group in the hierarchy: "4:cpu,memory:/path" or, version 2, "0::/path".
std::optional<std::string> group_of(std::string_view cgroup, bool version2) {
  for (const std::string_view line : split(cgroup, '\n')) {
    const auto first = line.find(':');
    if (first == std::string_view::npos) continue;
    const auto second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? line.starts_with("0::") : has_word(controllers, "memory"))
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

std::optional<std::uint64_t> number_in(const fs::path& path) {
  const auto text = read_proc_text(path);
  return text ? whole_number(*text) : std::nullopt;
}

std::optional<CgroupMemory> limit_of(const fs::path& folder, bool version2) {
  auto limit = number_in(folder / (version2 ? "memory.max" : "memory.limit_in_bytes"));
  if (version2)  // beyond memory.high the kernel slows a process down until it hardly moves
    if (const auto high = number_in(folder / "memory.high")) limit = std::min(limit.value_or(*high), *high);
  if (!limit || *limit >= kNoLimit) return std::nullopt;
  const auto used = number_in(folder / (version2 ? "memory.current" : "memory.usage_in_bytes")).value_or(0);
  const std::string stat = read_proc_text(folder / "memory.stat").value_or("");
  const std::string prefix = version2 ? "" : "total_";  // with the groups below
  const auto cache =
      number_after(stat, prefix + "inactive_file").value_or(0) + number_after(stat, prefix + "active_file").value_or(0);
  return CgroupMemory{*limit, used - std::min(used, cache), folder};
}

}  // namespace

std::optional<CgroupMemory> read_cgroup_memory(const fs::path& root) {
  const auto cgroup = read_proc_text(root / "proc/self/cgroup");
  const auto mountinfo = read_proc_text(root / "proc/self/mountinfo");
  std::optional<CgroupMemory> tightest;
  if (!cgroup || !mountinfo) return tightest;
  for (const Mount& mount : memory_mounts(root, *mountinfo)) {
    const auto group = group_of(*cgroup, mount.version2);
    if (!group) continue;
    for (const fs::path& folder : folders_up(mount, *group)) {
      const auto limit = limit_of(folder, mount.version2);
      if (limit && (!tightest || limit->room() < tightest->room())) tightest = limit;
    }
  }
  return tightest;
}

}  // namespace tpinfer
