#pragma once

#include <string>
#include <vector>

namespace tpinfer {

/// The files that `prompts.file` names, in its order: a pattern (* ? [...]) stands for those that it matches, by name.
/// Error(input) for a pattern without a match, and for a file that is named twice.
std::vector<std::string> expand_prompt_files(const std::vector<std::string>& names);

/// What stands before the line number in ids: each file's path below the folder that holds them all; "stdin" for "-".
std::vector<std::string> file_labels(const std::vector<std::string>& files);

}  // namespace tpinfer
