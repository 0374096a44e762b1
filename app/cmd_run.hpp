#pragma once

#include <string>

#include "app/paint.hpp"
#include "app/progress.hpp"
#include "job/job.hpp"

namespace tpinfer {

struct RunOptions {
  std::string job_file;
  JobOverrides overrides;
  bool dry_run = false;  ///< everything up to the fit check; nothing is loaded or written
  ProgressStyle progress = ProgressStyle::automatic;
  Paint errors;         ///< colours of standard error
  std::string command;  ///< the command line, for the result file
};

/// `tpinfer run`: -> exit code, the same on every rank.
int run_job(const RunOptions& options);

}  // namespace tpinfer
