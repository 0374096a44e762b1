#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.hpp"

namespace tpinfer {

/// The words that `key` (dotted) may have as yet, beside its default; nothing where all values may stand.
std::optional<std::vector<std::string>> allowed_words(std::string_view key);

/// Dotted key and complaint of each value in `job` (a job_json) whose feature does not exist yet.
std::vector<std::pair<std::string, std::string>> unsupported_values(const Json& job);

}  // namespace tpinfer
