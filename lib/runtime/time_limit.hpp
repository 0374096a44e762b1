#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/log.hpp"
#include "job/job.hpp"

namespace tpinfer {

/// What the environment says; empty: nothing.
using Environment = std::function<std::string(const char*)>;

/// Seconds from now until the job must have ended; nothing when there is no limit. `elapsed`: seconds that it has run
/// already. auto: SLURM_JOB_END_TIME, and where an older Slurm does not set it what squeue says of SLURM_JOB_ID.
std::optional<double> seconds_left(const TimeLimit& limit, double elapsed, const Environment& environment,
                                   const Log& log);

/// run.stop_margin, but no more than half of a limit that the job itself gives; a warning tells.
double stop_margin(const RunJob& run, const Log& log);

}  // namespace tpinfer
