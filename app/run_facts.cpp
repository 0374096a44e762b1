#include "app/run_facts.hpp"

#include <unistd.h>

#include "app/environment.hpp"
#include "build_facts.hpp"
#include "comm/communicator.hpp"
#include "shard/cuts.hpp"

namespace tpinfer {
namespace {

std::string host_name() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return host;
}

// What the answers keep to, which may be less than what was asked for.
std::string kept_reproducible(const RunSetup& setup, Reproducible asked, bool exact) {
  if (asked == Reproducible::off) return "off";
  const bool full = is_reproducible_count(setup.plan.ranks) && setup.partials == DType::float64 &&
                    asked != Reproducible::batch && exact;
  return full ? "full" : "batch";
}

}  // namespace

RunFacts run_facts(const RunSetup& setup, Reproducible asked, bool exact) {
  RunFacts facts;
  facts.tpinfer_version = kVersion;
  facts.git_commit = kGitCommit;
  facts.hostname = host_name();
  facts.mpi_library = mpi_library_version();
  facts.slurm_job_id = environment("SLURM_JOB_ID");
  facts.kernel_set = std::string(kernel_set_name(setup.kernel_set));
  facts.reproducible = kept_reproducible(setup, asked, exact);
  return facts;
}

}  // namespace tpinfer
