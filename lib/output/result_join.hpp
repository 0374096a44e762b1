#pragma once

#include <string>
#include <vector>

#include "output/run_result.hpp"

namespace tpinfer {

/// Results of parts of a job put together: the first part's prompts, then what the next ones add, in their order. A
/// prompt that several parts have finished must have the same answers in all; one that is pending in one part is taken
/// from the other. The run's facts, its ranks, plan and steps are those of the first part; attempts and events are
/// those of all. `names` are the parts' files, for complaints. Error(input) names the prompts whose answers contradict
/// each other.
RunResult join_results(std::vector<RunResult> parts, const std::vector<std::string>& names);

}  // namespace tpinfer
