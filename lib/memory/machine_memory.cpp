#include "memory/machine_memory.hpp"

#include <cstdlib>
#include <string_view>

#include "core/error.hpp"
#include "memory/cgroup_memory.hpp"
#include "memory/proc_text.hpp"

namespace tpinfer {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kMost = std::uint64_t{1} << 40;  // of MiB, and of CPUs: far beyond any machine

std::optional<std::uint64_t> number_from(const Environment& environment, const char* name) {
  const auto text = environment(name);
  if (!text || text->empty()) return std::nullopt;
  const auto value = whole_number(*text);
  if (!value || *value > kMost)
    throw Error(ExitCode::usage, fmt::format("the environment variable {} must be a number, it is \"{}\"", name, *text),
                "unset it, or set it as Slurm does");
  return value;
}

}  // namespace

MachineMemory read_machine_memory(const std::filesystem::path& proc_root) {
  const std::filesystem::path path = proc_root / "meminfo";
  const auto text = read_proc_text(path);
  if (!text) throw Error(ExitCode::internal, fmt::format("{}: cannot be read", path.string()), "is /proc mounted?");
  const auto total = number_after(*text, "MemTotal");
  const auto available = number_after(*text, "MemAvailable");
  if (!total || !available)
    throw Error(ExitCode::internal, fmt::format("{}: has no MemTotal or no MemAvailable", path.string()));
  return {.total = *total * 1024, .available = *available * 1024};
}

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<std::uint64_t> slurm_memory(const Environment& environment) {
  if (const auto node = number_from(environment, "SLURM_MEM_PER_NODE"); node.value_or(0) > 0) return *node * kMiB;
  const auto per_cpu = number_from(environment, "SLURM_MEM_PER_CPU").value_or(0);
  const auto cpus = number_from(environment, "SLURM_CPUS_ON_NODE").value_or(0);
  if (per_cpu == 0 || cpus == 0) return std::nullopt;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(per_cpu * kMiB, cpus, &bytes)) return std::nullopt;  // no limit that could matter
  return bytes;
}

UsableMemory find_usable_memory(const std::filesystem::path& root, const Environment& environment) {
  UsableMemory usable{read_machine_memory(root / "proc").available, "available memory"};
  const auto at_most = [&](std::uint64_t bytes, std::string set_by) {
    if (bytes < usable.bytes) usable = {bytes, std::move(set_by)};
  };
  if (const auto group = read_cgroup_memory(root)) at_most(group->room(), "control group " + group->group.string());
  if (const auto slurm = slurm_memory(environment)) at_most(*slurm, "Slurm");
  return usable;
}

std::uint64_t usable_memory(const std::filesystem::path& root, const Environment& environment) {
  return find_usable_memory(root, environment).bytes;
}

std::uint64_t fair_share(std::uint64_t usable, int ranks_on_host) {
  if (ranks_on_host < 1)
    throw Error(ExitCode::internal, fmt::format("memory cannot be shared by {} ranks", ranks_on_host));
  constexpr std::uint64_t kPage = 4096;
  return usable / static_cast<std::uint64_t>(ranks_on_host) / kPage * kPage;
}

}  // namespace tpinfer
