#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/json.hpp"

namespace tpinfer {

/// Dotted key and complaint of each value in `job` (a job_json) whose feature does not exist yet.
std::vector<std::pair<std::string, std::string>> unsupported_values(const Json& job);

}  // namespace tpinfer
