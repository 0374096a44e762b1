#include "app/run_setup.hpp"

#include <algorithm>
#include <charconv>

#include "app/environment.hpp"
#include "app/job_record.hpp"
#include "core/error.hpp"

namespace tpinfer {

KernelSet common_kernel_set(Communicator& comm) {
  KernelSet set = KernelSet::scalar;
  std::exception_ptr failure;
  try {
    set = choose_kernel_set(environment("TPINFER_ISA"));
  } catch (...) {
    failure = std::current_exception();
  }
  agree(comm, failure, "choosing kernels");
  for (const std::int64_t other : comm.all_gather(static_cast<std::int64_t>(set), "kernel sets"))
    set = std::min(set, static_cast<KernelSet>(other));
  return set;
}

std::vector<std::uint64_t> limits_of_a_replica(const std::vector<int>& places, const std::vector<std::int64_t>& budgets,
                                               std::optional<std::uint64_t> limit) {
  const auto last = static_cast<std::size_t>(*std::ranges::max_element(places));
  std::vector<std::uint64_t> limits(last + 1, UINT64_MAX);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    std::uint64_t& least = limits[static_cast<std::size_t>(places[rank])];
    least = std::min(least, limit.value_or(static_cast<std::uint64_t>(budgets[rank])));
  }
  return limits;
}

namespace {

PartLimit first_part(const std::string& wanted) {
  PartLimit limit{.prompts = 65'536, .bytes = std::uint64_t{64} << 20};
  if (wanted.empty()) return limit;
  const auto [end, fault] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), limit.prompts);
  if (fault != std::errc() || end != wanted.data() + wanted.size() || limit.prompts < 1)
    throw Error(ExitCode::usage, fmt::format("TPINFER_FIRST_PROMPTS is \"{}\", a number from 1 is needed", wanted));
  return limit;
}

}  // namespace

ReadingTerms reading_terms(const Job& job, bool dry_run, const StopSwitch& asked) {
  const StopReading stopped = [&asked] { return asked.asked() != StopSwitch::Asked::no; };
  const PartLimit first = first_part(environment("TPINFER_FIRST_PROMPTS"));
  return {.first = dry_run || !JobRecord::begins_anew(job.output) ? PartLimit{} : first, .stopped = stopped};
}

RunSetup make_setup(const Job& job, const Preparation& prepared, const SetupTerms& terms) {
  RunSetup setup;
  setup.plan = prepared.plan;
  setup.limits = prepared.memory.limits;
  setup.kv_blocks = prepared.memory.kv_blocks;
  setup.kv_block_size = prepared.memory.block_size;
  setup.kernel_set = terms.kernel_set;
  setup.gpu = terms.gpu;
  setup.threads = static_cast<int>(job.parallel.threads.value_or(0));
  setup.transport = job.parallel.communication == Communication::mpi    ? Transport::mpi
                    : job.parallel.communication == Communication::shm  ? Transport::shm
                    : job.parallel.communication == Communication::nccl ? Transport::nccl
                                                                        : Transport::automatic;
  if (setup.transport == Transport::nccl && !setup.gpu)
    throw Error(ExitCode::usage, "parallel.communication: nccl connects GPUs, but the job runs on the CPU",
                "use parallel.communication: auto");
  setup.collective_timeout = job.run.collective_timeout;
  setup.read_mode = job.model.load_strategy == LoadStrategy::mmap   ? ReadMode::mapped
                    : job.model.load_strategy == LoadStrategy::read ? ReadMode::read
                                                                    : ReadMode::automatic;
  const Reproducible reproducible = job.engine.reproducible;
  // A GPU's sums do not depend on the batch in float32 either, and are faster so.
  if (reproducible == Reproducible::off || (setup.gpu && reproducible != Reproducible::full))
    setup.partials = DType::float32;
  setup.any_order = reproducible == Reproducible::off;
  setup.gpu_graphs = terms.gpu_graphs;
  setup.gpu_ahead = terms.gpu_ahead;
  setup.shared_gpus = setup.gpu && terms.shared_gpus;
  setup.replicas = terms.replicas;
  setup.prefix_sharing = job.engine.prefix_sharing;
  setup.allowed_ids = prepared.context.allowed_ids;  // every rank may have to sample
  const bool stops =                                 // or it is not known yet
      prepared.more || std::ranges::any_of(prepared.requests, [](const Request& r) { return !r.params->stop.empty(); });
  if (setup.replicas > 1) {
    setup.eos_ids = prepared.context.eos_ids;
    if (stops) setup.tokenizer_folder = job.model.tokenizer_path();
  }
  setup.sums = prepared.sums;
  setup.verify_finite = job.model.verify_weights == VerifyWeights::finite;
  setup.tell_phases = job.run.log_level == LogLevel::debug;
  return setup;
}

}  // namespace tpinfer
