#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tpinfer {

/// Memory of this process in bytes, as the kernel counts it (/proc/self/status).
struct ProcessMemory {
  std::uint64_t rss = 0;          ///< VmRSS = anonymous + file_backed + shared
  std::uint64_t rss_peak = 0;     ///< VmHWM: largest rss since the process began
  std::uint64_t anonymous = 0;    ///< RssAnon: heap, stacks, own weights, KV cache
  std::uint64_t file_backed = 0;  ///< RssFile: pages of mapped files, weights that are just being copied among them
  std::uint64_t shared = 0;       ///< RssShmem: shared-memory windows
};

/// Error(internal) when the kernel does not tell one of them (Linux 4.5 and later do).
ProcessMemory read_process_memory(const std::filesystem::path& proc_root = "/proc");

/// What this process has read since it began, in bytes (/proc/self/io).
struct ReadCounters {
  std::uint64_t rchar = 0;       ///< by read(2) and its like, from the page cache or not; mapped files do not count
  std::uint64_t read_bytes = 0;  ///< fetched from storage, for mapped files too
};

/// Nothing where the kernel does not tell (it may be built without, or refuse in a container).
std::optional<ReadCounters> read_counters(const std::filesystem::path& proc_root = "/proc");

}  // namespace tpinfer
