#pragma once

#include <string>

#include "app/paint.hpp"
#include "job/job.hpp"

namespace tpinfer {

struct CheckOptions {
  std::string job_file;
  JobOverrides overrides;
  int ranks = 0;  ///< number of ranks to check for; 0: the job's tensor_parallel_size, or 1
  bool json = false;
  Paint paint, errors;  ///< colours of standard output and standard error
};

/// `tpinfer check`: what `run` would refuse before it loads, every finding at once, without MPI. -> the exit code that
/// `run` would end with.
int run_check(const CheckOptions& options);

}  // namespace tpinfer
