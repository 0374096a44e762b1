#pragma once

#include "job/job.hpp"
#include "runtime/preparation.hpp"
#include "runtime/setup.hpp"

namespace tpinfer {

/// What the ranks of a run have in common besides the plan.
struct SetupTerms {
  KernelSet kernel_set = KernelSet::scalar;
  int replicas = 1;
  bool gpu = false;
  bool shared_gpus = false;
  bool gpu_graphs = true;
};

/// What rank 0 tells all others. Error(usage) where the job's keys contradict each other.
RunSetup make_setup(const Job& job, const Preparation& prepared, const SetupTerms& terms);

}  // namespace tpinfer
