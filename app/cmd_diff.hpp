#pragma once

#include <filesystem>

#include "app/paint.hpp"
#include "output/result_diff.hpp"

namespace tpinfer {

struct DiffCommand {
  std::filesystem::path a, b;
  DiffOptions options;
  bool json = false;
  Paint paint;  ///< of standard output
};

/// `tpinfer diff`: whether two result files give the same answers, and where not. -> exit code 0 same, 1 different;
/// Error(input) when a file is no sound result file.
int run_diff(const DiffCommand& command);

}  // namespace tpinfer
