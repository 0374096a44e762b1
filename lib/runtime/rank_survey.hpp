#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "memory/machine_memory.hpp"
#include "runtime/gpu_choice.hpp"

namespace tpinfer {

/// Something about a host or its ranks that is as it should be, or that costs speed or stops jobs.
struct Advice {
  bool good = true;
  std::string what;
  std::string hint;  ///< what to do; empty when good
  bool operator==(const Advice&) const = default;
};

/// What one rank of a job would be.
struct RankFacts {
  std::int32_t rank = 0, local_rank = 0;
  std::int64_t host_number = 0;  ///< the lowest rank of its host
  std::string build;             ///< of the program that it runs
  std::vector<std::int32_t> cores;
  std::int32_t cores_online = 0;
  std::int32_t numa_nodes = 0;  ///< of its host
  std::string kernel_set;       ///< that it chooses; empty where that fails
  std::uint64_t memory = 0;     ///< bytes: its share of what its host may use
  std::string memory_set_by;
  std::vector<Advice> host_advice;  ///< from the first rank of each host
  GpuSeat seat;
};

/// Collective: what this rank tells of itself (rank, host and seat are filled in here) -> all ranks' facts on rank 0,
/// nothing on the others.
std::vector<RankFacts> survey_ranks(Communicator& comm, RankFacts mine);

/// How this program was started, from the launchers' variables.
struct Launch {
  bool by_launcher = false;  ///< MPI may be initialised and finds the other ranks
  std::string words = {};    ///< "mpirun", "srun", "no launcher"
  int lonely_tasks = 0;      ///< srun has started so many that will not find each other
};
Launch find_launch(const Environment& environment = process_environment);

/// What concerns several ranks: builds, kernels, binding, NUMA nodes, GPUs. `ranks` of survey_ranks.
std::vector<Advice> check_ranks(const std::vector<RankFacts>& ranks, const Launch& launch);

}  // namespace tpinfer
