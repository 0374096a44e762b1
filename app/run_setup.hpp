#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "job/job.hpp"
#include "runtime/preparation.hpp"
#include "runtime/setup.hpp"
#include "runtime/stop.hpp"

namespace tpinfer {

/// What the ranks of a run have in common besides the plan.
struct SetupTerms {
  KernelSet kernel_set = KernelSet::scalar;
  int replicas = 1;
  bool gpu = false;
  bool shared_gpus = false;
  bool gpu_graphs = true;
  bool gpu_ahead = true;
};

/// Collective: the best set that every rank may use. Error(usage) for a set that TPINFER_ISA asks of a rank in vain.
KernelSet common_kernel_set(Communicator& comm);

/// Bytes that each place of a replica may use: what the poorest rank of that place has (`budgets`, of all ranks), or
/// `limit`. `places`: of each rank in its replica.
std::vector<std::uint64_t> limits_of_a_replica(const std::vector<int>& places, const std::vector<std::int64_t>& budgets,
                                               std::optional<std::uint64_t> limit);

/// How many prompts are known before loading: all of them where they are only checked or compared with earlier answers,
/// else the first part (of TPINFER_FIRST_PROMPTS prompts where that is set; Error(usage) for what is no number).
/// `asked`, which must stay, ends the reading.
ReadingTerms reading_terms(const Job& job, bool dry_run, const StopSwitch& asked);

/// What rank 0 tells all others. Error(usage) where the job's keys contradict each other.
RunSetup make_setup(const Job& job, const Preparation& prepared, const SetupTerms& terms);

}  // namespace tpinfer
