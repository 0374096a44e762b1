#pragma once

#include <string>
#include <vector>

namespace tpinfer {

/// What two jobs as resolved (RunResult::job_resolved) ask for otherwise, as far as answers can depend on it: keys of
/// `model`, `prompts` and `sampling` but for paths, in the first job's order, as "sampling.seed: 1 | 2".
std::vector<std::string> job_differences(const std::string& a, const std::string& b);

}  // namespace tpinfer
