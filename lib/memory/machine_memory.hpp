#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace tpinfer {

/// Memory of this host in bytes (/proc/meminfo).
struct MachineMemory {
  std::uint64_t total = 0;
  std::uint64_t available = 0;  ///< the kernel's estimate of what can be had without swapping
};

/// Error(internal) when the kernel does not tell.
MachineMemory read_machine_memory(const std::filesystem::path& proc_root = "/proc");

/// The value of an environment variable, nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const char*)>;
/// This process's own environment.
std::optional<std::string> process_environment(const char* name);

/// Bytes per node that Slurm gave this job: SLURM_MEM_PER_NODE, or SLURM_MEM_PER_CPU times SLURM_CPUS_ON_NODE (MiB, all
/// of them). Nothing outside Slurm, and for 0, which means the whole node. Error(usage) for values that are no numbers.
std::optional<std::uint64_t> slurm_memory(const Environment& environment = process_environment);

/// Memory that this host's ranks may use together, and what sets that limit.
struct UsableMemory {
  std::uint64_t bytes = 0;
  std::string set_by;  ///< "available memory", "control group /sys/...", "Slurm": for messages
};

/// The least of the machine's available memory, the control group's room and Slurm's allotment.
UsableMemory find_usable_memory(const std::filesystem::path& root = "/",
                                const Environment& environment = process_environment);
/// Its bytes alone.
std::uint64_t usable_memory(const std::filesystem::path& root = "/",
                            const Environment& environment = process_environment);

/// What one of `ranks_on_host` ranks may use, rounded down to whole pages of 4 KiB. Ask once, on one rank of each host,
/// before any rank allocates: later answers are smaller.
std::uint64_t fair_share(std::uint64_t usable, int ranks_on_host);

}  // namespace tpinfer
