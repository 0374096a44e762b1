#include "app/cmd_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/info_report.hpp"
#include "app/print.hpp"
#include "backend/factory.hpp"
#include "build_facts.hpp"
#include "comm/nccl.hpp"
#include "core/error.hpp"
#include "memory/cores.hpp"
#include "output/result_writer.hpp"
#include "runtime/host_check.hpp"

namespace tpinfer {
namespace {

constexpr double kTimeout = 120;  // s: loading the GPU driver on a large host takes its time

// Variables that the program or its launchers heed. No others are ever shown: they may hold secrets.
constexpr const char* kVariables[] = {"TPINFER_ISA",
                                      "TPINFER_CUDA_GRAPHS",
                                      "TPINFER_CUDA_AHEAD",
                                      "TPINFER_FIRST_PROMPTS",
                                      "CUDA_VISIBLE_DEVICES",
                                      "SLURM_JOB_ID",
                                      "SLURM_JOB_NUM_NODES",
                                      "SLURM_NTASKS",
                                      "SLURM_MEM_PER_NODE",
                                      "SLURM_MEM_PER_CPU",
                                      "SLURM_JOB_END_TIME",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_MCA_hwloc_base_binding_policy",
                                      "OMPI_MCA_rmaps_base_oversubscribe"};

std::vector<LibraryVersions> libraries(const MachineFacts& machine) {
  std::string mpi = mpi_library_version();
  mpi = mpi.substr(0, mpi.find(','));  // without the host that the package was made on
  std::vector<LibraryVersions> list{{"MPI", mpi_build_version(), mpi, {}},
                                    {"HDF5", hdf5_build_version(), hdf5_library_version(), {}}};
  LibraryVersions cuda{"CUDA", kCudaToolkit, {}, {}};
  if (!machine.gpu_driver.empty()) cuda.running = "driver " + machine.gpu_driver;
  if (!cuda_available()) cuda.note = cuda_reason();
  list.push_back(std::move(cuda));
  LibraryVersions nccl{"NCCL", nccl_build_version(), nccl_version(), {}};
  if (!nccl_available()) nccl.note = nccl_reason();
  list.push_back(std::move(nccl));
  return list;
}

std::string chosen_kernels(const std::string& forced) {
  try {
    return std::string(kernel_set_name(choose_kernel_set(forced)));
  } catch (const Error&) {
    return {};  // check_host tells why
  }
}

RankFacts this_rank(const MachineFacts& machine, const UsableMemory& usable, int ranks_here) {
  const std::string forced = process_environment("TPINFER_ISA").value_or("");
  const std::vector<int> cores = allowed_cores();
  const HostUse use{.forced_kernels = forced,
                    .best = best_kernel_set(),
                    .usable_cores = static_cast<int>(cores.size()),
                    .ranks = ranks_here,
                    .memory = usable,
                    .cuda = *kCudaToolkit != '\0',
                    .cuda_reason = cuda_reason(),
                    .gpus_seen = survey_gpus().size(),
                    .cuda_visible_devices = process_environment("CUDA_VISIBLE_DEVICES").value_or("")};
  RankFacts mine;
  mine.build = fmt::format("tpinfer {} (commit {})", kVersion, kGitCommit);
  mine.cores.assign(cores.begin(), cores.end());
  mine.cores_online = machine.cores_online;
  mine.numa_nodes = static_cast<std::int32_t>(machine.numa_nodes.size());
  mine.kernel_set = chosen_kernels(forced);
  mine.memory = fair_share(usable.bytes, ranks_here);
  mine.memory_set_by = usable.set_by;
  mine.host_advice = check_host(machine, use);
  return mine;
}

Advice compare_hdf5(const LibraryVersions& hdf5) {
  if (hdf5.built == hdf5.running) return {true, fmt::format("HDF5 {} as built with", hdf5.running), {}};
  return {false, fmt::format("HDF5 {} runs, the program was built with {}", hdf5.running, hdf5.built),
          "build tpinfer on this machine, or correct LD_LIBRARY_PATH"};
}

Advice compare_mpi(const LibraryVersions& mpi) {
  // "Open MPI 4.1.4 (MPI 3.1)" and "Open MPI v4.1.4"
  const std::string built = mpi.built.substr(0, mpi.built.find(" ("));
  std::string running = mpi.running;
  if (const auto v = running.find(" v"); v != std::string::npos) running.erase(v + 1, 1);
  const bool alike = built == running || !mpi.built.starts_with("Open MPI");
  if (alike) return {true, fmt::format("{} as built with", mpi.running), {}};
  return {false, fmt::format("{} runs, the program was built with {}", mpi.running, mpi.built),
          "use the mpirun and the libmpi of the build, or build tpinfer anew"};
}

// The same words of several hosts are told once.
void gather_advice(InfoFacts& facts) {
  for (const RankFacts& rank : facts.ranks)
    for (const Advice& advice : rank.host_advice) {
      const bool elsewhere = std::ranges::any_of(facts.advice, [&](const auto& told) { return told.second == advice; });
      if (!elsewhere) facts.advice.emplace_back(rank.seat.host, advice);
    }
  const bool one_host = std::ranges::all_of(
      facts.ranks, [&](const RankFacts& rank) { return rank.host_number == facts.ranks.front().host_number; });
  if (one_host)
    for (auto& [host, advice] : facts.advice) host.clear();
  for (Advice& advice : check_ranks(facts.ranks, facts.launch)) facts.advice.emplace_back("", std::move(advice));
}

InfoFacts collect(Communicator& comm, const Launch& launch) {
  InfoFacts facts;
  facts.machine = read_machine_facts();
  facts.memory = read_machine_memory();
  facts.usable = find_usable_memory();
  facts.launch = launch;
  facts.ranks = survey_ranks(comm, this_rank(facts.machine, facts.usable, comm.local_size()));
  if (comm.rank() != 0) return facts;
  facts.version = kVersion;
  facts.commit = kGitCommit;
  facts.build_type = kBuildType;
  facts.compiler = kCompiler;
  facts.libraries = libraries(facts.machine);
  facts.host = facts.ranks.front().seat.host;
  for (const KernelSet set : {KernelSet::scalar, KernelSet::avx2, KernelSet::avx512, KernelSet::avx512_bf16})
    if (has_kernel_set(set)) facts.kernel_sets.emplace_back(kernel_set_name(set));
  facts.kernel_set = facts.ranks.front().kernel_set;
  for (const char* name : kVariables)
    if (const auto value = process_environment(name)) facts.environment.emplace_back(name, *value);
  facts.advice.emplace_back("", compare_mpi(facts.libraries[0]));
  facts.advice.emplace_back("", compare_hdf5(facts.libraries[1]));
  gather_advice(facts);
  return facts;
}

}  // namespace

int run_info(const InfoOptions& options) {
  const Launch launch = find_launch();
  std::optional<MpiSession> mpi;
  if (launch.by_launcher) mpi.emplace();
  const std::unique_ptr<Communicator> comm = mpi ? mpi->world(kTimeout) : make_self_communicator();
  const InfoFacts facts = collect(*comm, launch);
  if (comm->rank() == 0) {
    print_all(options.json ? info_json(facts).dump(1, ' ', false, Json::error_handler_t::replace) + "\n"
                           : info_text(facts, options.paint));
  }
  comm->barrier("the end");
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
