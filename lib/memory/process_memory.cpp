#include "memory/process_memory.hpp"

#include <string_view>

#include "core/error.hpp"
#include "memory/proc_text.hpp"

namespace tpinfer {

ProcessMemory read_process_memory(const std::filesystem::path& proc_root) {
  const std::filesystem::path path = proc_root / "self" / "status";
  const auto text = read_proc_text(path);
  if (!text) throw Error(ExitCode::internal, fmt::format("{}: cannot be read", path.string()), "is /proc mounted?");
  const auto bytes = [&](std::string_view key) {
    const auto kib = number_after(*text, key);
    if (!kib) throw Error(ExitCode::internal, fmt::format("{}: has no line {}", path.string(), key));
    return *kib * 1024;
  };
  return {.rss = bytes("VmRSS"),
          .rss_peak = bytes("VmHWM"),
          .anonymous = bytes("RssAnon"),
          .file_backed = bytes("RssFile"),
          .shared = bytes("RssShmem")};
}

std::optional<ReadCounters> read_counters(const std::filesystem::path& proc_root) {
  const auto text = read_proc_text(proc_root / "self" / "io");
  if (!text) return std::nullopt;
  const auto rchar = number_after(*text, "rchar");
  const auto read = number_after(*text, "read_bytes");
  if (!rchar || !read) return std::nullopt;
  return ReadCounters{.rchar = *rchar, .read_bytes = *read};
}

}  // namespace tpinfer
