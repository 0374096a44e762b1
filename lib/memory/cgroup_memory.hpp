#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tpinfer {

/// A memory limit of a control group, in bytes.
struct CgroupMemory {
  std::uint64_t limit = 0;
  std::uint64_t used = 0;       ///< of it, by everything in the group, less file cache that can be dropped
  std::filesystem::path group;  ///< the folder that sets it
  std::uint64_t room() const noexcept { return used < limit ? limit - used : 0; }
};

/// The tightest limit that holds for this process: of its control group (versions 1, 2 and both at once) and of all
/// groups above it, that with the least room. Nothing when none is set. `root`: where proc and sys are found.
std::optional<CgroupMemory> read_cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace tpinfer
