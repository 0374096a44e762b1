#pragma once

#include <filesystem>
#include <vector>

namespace tpinfer {

struct MergeCommand {
  std::vector<std::filesystem::path> files;
  std::filesystem::path output;
  bool overwrite = false;
};

/// `tpinfer merge`: results of a job array put together. -> exit code 0; Error(input) when the parts contradict each
/// other or are not of one model, type and kernel set, Error(output) when the output is there already.
int run_merge(const MergeCommand& command);

}  // namespace tpinfer
