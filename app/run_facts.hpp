#pragma once

#include <string>

#include "runtime/result_builder.hpp"
#include "runtime/setup.hpp"

namespace tpinfer {

/// What the result file says of the build, this host and how sums were made; without plan digest and places of ranks.
/// `asked`: the job's engine.reproducible; `exact`: no sum was too large to be added exactly.
RunFacts run_facts(const RunSetup& setup, Reproducible asked, bool exact);

}  // namespace tpinfer
