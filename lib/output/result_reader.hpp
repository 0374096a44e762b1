#pragma once

#include <filesystem>

#include "output/run_result.hpp"

namespace tpinfer {

/// Reads a result file back. Error(input), naming file and object, when it is missing, no result file, of a later
/// format version, damaged (its checksum differs) or unsound. Rows without log probabilities have empty lists.
RunResult read_result_file(const std::filesystem::path& file);

}  // namespace tpinfer
