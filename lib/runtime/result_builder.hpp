#pragma once

#include <string>
#include <vector>

#include "output/run_result.hpp"
#include "runtime/preparation.hpp"

namespace tpinfer {

/// Facts of the program and the machine that the caller knows.
struct RunFacts {
  std::string created, command, tpinfer_version, git_commit, hostname, mpi_library, slurm_job_id, kernel_set,
      plan_digest, reproducible;
  std::vector<int> tp_ranks = {};  ///< [ranks] place of each rank in its replica
};

/// ISO 8601 UTC of now, e.g. "2026-01-31T12:00:00Z".
std::string utc_now();

/// Result file content of a run: everything but prompts, answers, attempts and the ranks.
void describe_run(const Job& job, const Preparation& prepared, const RunFacts& facts, RunResult& result);

/// Keeps at most 10,000 rows of a time series: when full, every second row goes and only every second one is taken from
/// then on.
class StepSeries {
 public:
  void add(const StepRow& row);
  /// All that were kept, and the last one.
  std::vector<StepRow> take();

 private:
  std::vector<StepRow> rows_;
  StepRow last_;
  std::int64_t stride_ = 1;
  std::int64_t seen_ = 0;
};

}  // namespace tpinfer
