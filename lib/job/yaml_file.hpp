#pragma once

#include <filesystem>

#include "core/json.hpp"

namespace tpinfer {

/// A YAML (or JSON) file that is no job, as JSON: plain true, false and null are what they say, everything else is
/// text. The rules of job files hold: no duplicate keys, anchors or tags. Error(input) tells all faults with their
/// places.
Json read_yaml(const std::filesystem::path& file);

}  // namespace tpinfer
