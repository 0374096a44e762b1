#include "runtime/core_use.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <set>

#include "core/bytes.hpp"
#include "memory/cores.hpp"

namespace tpinfer {
namespace {

/// The ranks of one host together.
struct HostUse {
  std::size_t ranks = 0;
  std::int64_t threads = 0;
  std::set<std::int32_t> cores, launchers;
};

std::string_view plural(std::size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

CoreUse own_core_use(const std::string& host, int threads) {
  CoreUse use{.host = host, .threads = threads, .cores = allowed_cores()};
  // the parent of a rank is mpirun or its daemon, whose cores are all that there are to give; srun's is not
  if (std::getenv("OMPI_COMM_WORLD_SIZE") && !std::getenv("SLURM_STEP_TASK_PID") && !std::getenv("SLURM_TASK_PID"))
    use.launchers = allowed_cores(::getppid());
  return use;
}

std::vector<std::byte> encode(const CoreUse& use) {
  ByteWriter to;
  to.put(use.host);
  to.put(use.threads);
  to.put(use.cores);
  to.put(use.launchers);
  return to.take();
}

CoreUse decode_core_use(std::span<const std::byte> bytes) {
  ByteReader from(bytes);
  CoreUse use;
  use.host = from.get_string();
  use.threads = from.get<std::int32_t>();
  from.get_list(use.cores);
  from.get_list(use.launchers);
  return use;
}

std::vector<std::string> core_complaints(std::span<const CoreUse> ranks, const std::optional<std::int64_t>& asked) {
  std::map<std::string, HostUse> hosts;
  for (const CoreUse& rank : ranks) {
    HostUse& host = hosts[rank.host];
    ++host.ranks;
    host.threads += rank.threads;
    host.cores.insert(rank.cores.begin(), rank.cores.end());
    host.launchers.insert(rank.launchers.begin(), rank.launchers.end());
  }
  std::vector<std::string> complaints;
  for (const auto& [name, host] : hosts) {
    const std::size_t cores = host.cores.size();
    const auto threads = static_cast<std::size_t>(host.threads);
    if (host.launchers.size() > cores) {
      complaints.push_back(fmt::format(
          "mpirun lets the {} rank{} on {} use {} of {} cores only, with {} thread{} (mpirun --bind-to none)",
          host.ranks, plural(host.ranks), name, cores, host.launchers.size(), threads, plural(threads)));
    } else if (cores > 0 && threads > cores) {
      complaints.push_back(fmt::format(
          "{} rank{} on {} compute with {} threads together, but may use {} core{} ({})", host.ranks,
          plural(host.ranks), name, threads, cores, plural(cores),
          asked ? "leave parallel.threads out, which shares the cores out" : "fewer ranks would be faster"));
    }
  }
  return complaints;
}

std::vector<std::string> core_complaints(Communicator& comm, const CoreUse& own,
                                         const std::optional<std::int64_t>& asked) {
  std::vector<CoreUse> ranks;
  for (const auto& bytes : comm.gather(encode(own), 0, "the ranks' cores")) ranks.push_back(decode_core_use(bytes));
  return comm.rank() == 0 ? core_complaints(ranks, asked) : std::vector<std::string>();
}

}  // namespace tpinfer
