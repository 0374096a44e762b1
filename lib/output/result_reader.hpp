#pragma once

#include <filesystem>
#include <memory>

#include "output/row_source.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

/// Reads a result file back. Error(input), naming file and object, when it is missing, no result file, of a later
/// format version, damaged (its checksum differs) or unsound. Rows without log probabilities have empty lists.
RunResult read_result_file(const std::filesystem::path& file);

/// The same file's prompts and answers, read in parts; its first complaints come here, those about a part when next()
/// reads it. Only what concerns these rows, the run and the model is proved.
std::unique_ptr<RowSource> open_result_rows(const std::filesystem::path& file);

}  // namespace tpinfer
