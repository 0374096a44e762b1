#include "runtime/host_check.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/units.hpp"

namespace tpinfer {
namespace {

// 2048 tokens of a model of width 8192, a float64 each: what a rank of a job with default sizes may put there
constexpr std::uint64_t kShmOfARank = std::uint64_t{128} << 20;
constexpr std::uint64_t kFewFiles = 256;  // a model may have a hundred weight files

Advice good(std::string what) { return {true, std::move(what), {}}; }
Advice bad(std::string what, std::string hint) { return {false, std::move(what), std::move(hint)}; }

Advice check_kernels(const HostUse& use) {
  const std::string best(kernel_set_name(use.best));
  try {
    const KernelSet chosen = choose_kernel_set(use.forced_kernels);
    if (chosen < use.best)
      return bad(
          fmt::format("TPINFER_ISA holds the kernels at {}; this processor has {}", kernel_set_name(chosen), best),
          "unset TPINFER_ISA");
    if (chosen == KernelSet::scalar)
      return bad(
          "this processor has none of the instruction sets that kernels are made for: plain C++ runs, many times "
          "slower",
          "use a processor with AVX2, or give the virtual machine the host's own CPU model");
    return good(fmt::format("kernels {}{}", kernel_set_name(chosen),
                            use.forced_kernels.empty() ? ", the fastest here" : ", as TPINFER_ISA says"));
  } catch (const Error& e) {
    return bad(e.what(), "no job runs with this value");
  }
}

Advice check_cores(const MachineFacts& facts, const HostUse& use) {
  const std::string cores = fmt::format("{} of {} core{} may be used", use.usable_cores, facts.cores_online,
                                        facts.cores_online == 1 ? "" : "s");
  if (!facts.core_quota || *facts.core_quota >= use.usable_cores) return good(cores);
  const std::string quota =
      fmt::format("{}, of whose time a control group allows that of {:.4g}", cores, *facts.core_quota);
  if (*facts.core_quota < use.ranks)
    return bad(fmt::format("{}: {} ranks would hold each other up", quota, use.ranks),
               "start fewer ranks, or allow more time");
  return good(quota + ": jobs start threads for no more, unless parallel.threads says so");
}

Advice check_huge_pages(const MachineFacts& facts) {
  const std::string& word = facts.transparent_huge_pages;
  if (word == "always" || word == "madvise") return good(fmt::format("transparent huge pages: {}", word));
  return bad(
      fmt::format("transparent huge pages are {}: reading weights costs more", word.empty() ? "not there" : "off"),
      "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

Advice check_shm(const MachineFacts& facts, const HostUse& use) {
  const std::uint64_t wanted = kShmOfARank * static_cast<std::uint64_t>(std::max(1, use.ranks));
  if (facts.shm_total == 0)
    return bad("there is no /dev/shm: ranks of this host would communicate by MPI, which is slower",
               "mount a tmpfs there (docker run --shm-size 1g)");
  const std::string free = fmt::format("/dev/shm has {} free", format_bytes_binary(facts.shm_free));
  if (facts.shm_free < wanted)
    return bad(fmt::format("{}, {} for {} rank{} may be needed; without, ranks communicate by MPI, which is slower",
                           free, format_bytes_binary(wanted), use.ranks, use.ranks == 1 ? "" : "s"),
               "enlarge it (docker run --shm-size 1g) or remove what lies there");
  return good(free);
}

void check_limits(const MachineFacts& facts, const HostUse& use, std::vector<Advice>& out) {
  out.push_back(good(
      fmt::format("{} of memory may be used (set by: {})", format_bytes_binary(use.memory.bytes), use.memory.set_by)));
  if (facts.most_address_space)
    out.push_back(bad(fmt::format("a process may have {} of address space, and weight files are mapped into it",
                                  format_bytes_binary(*facts.most_address_space)),
                      "ulimit -v unlimited"));
  if (facts.most_open_files < kFewFiles)
    out.push_back(bad(fmt::format("a process may open {} files", facts.most_open_files), "ulimit -n 1024"));
}

Advice check_gpu(const MachineFacts& facts, const HostUse& use) {
  const bool driver = !facts.gpu_driver.empty();
  if (use.gpus_seen > 0) return good(fmt::format("{} GPU{} seen", use.gpus_seen, use.gpus_seen == 1 ? "" : "s"));
  if (!driver) return good("no GPU driver here: jobs run on the CPU");
  if (!use.cuda)
    return bad(fmt::format("NVIDIA's driver {} is loaded, but {}", facts.gpu_driver, use.cuda_reason),
               "install the CUDA toolkit and configure with -DTPINFER_CUDA=ON");
  return bad(fmt::format("NVIDIA's driver {} is loaded, but no GPU is seen{}{}", facts.gpu_driver,
                         use.cuda_reason.empty() ? "" : ": ", use.cuda_reason),
             use.cuda_visible_devices.empty()
                 ? "look at the job's GPUs (nvidia-smi -L)"
                 : fmt::format("CUDA_VISIBLE_DEVICES is {}; compare nvidia-smi -L", use.cuda_visible_devices));
}

}  // namespace

std::vector<Advice> check_host(const MachineFacts& facts, const HostUse& use) {
  std::vector<Advice> out{check_kernels(use), check_cores(facts, use), check_huge_pages(facts), check_shm(facts, use)};
  check_limits(facts, use, out);
  out.push_back(check_gpu(facts, use));
  return out;
}

}  // namespace tpinfer
