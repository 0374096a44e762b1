#include "memory/cgroup_memory.hpp"

#include <algorithm>
#include <string>

#include "memory/cgroup.hpp"
#include "memory/proc_text.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

// Limits above this are "none": version 1 says 2^63 rounded down to a page.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

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
  std::optional<CgroupMemory> tightest;
  for (const CgroupFolder& folder : cgroup_folders(root, "memory")) {
    const auto limit = limit_of(folder.path, folder.version2);
    if (limit && (!tightest || limit->room() < tightest->room())) tightest = limit;
  }
  return tightest;
}

}  // namespace tpinfer
