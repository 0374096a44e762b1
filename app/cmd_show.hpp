#pragma once

#include <filesystem>
#include <string>

#include "app/paint.hpp"

namespace tpinfer {

struct ShowOptions {
  std::filesystem::path file;
  std::string id;       ///< one prompt, whole; empty: all, in short
  bool memory = false;  ///< weights and memory of each rank
  bool plan = false;    ///< which rank holds what
  bool errors = false;  ///< prompts without an answer
  bool stats = false;   ///< counts, rates and times
  bool json = false;
  bool follow = false;       ///< first show how far the job is, until it ends; then no answers unless --id asks for one
  Paint paint, error_paint;  ///< of standard output and standard error
};

/// `tpinfer show`: prints parts of a result file; without a part, a summary and the answers. -> exit code 0; 2 when the
/// id is unknown, 3 when the file is no sound result file.
int run_show(const ShowOptions& options);

}  // namespace tpinfer
