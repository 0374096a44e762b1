#pragma once

#include <filesystem>

#include "app/paint.hpp"

namespace tpinfer {

struct VerifyOptions {
  std::filesystem::path file;
  bool json = false;
  Paint paint;  ///< of standard output
};

/// `tpinfer verify`: is a result file complete, undamaged, and was what its ranks loaded what was planned? -> exit code
/// 0, or 3 when anything of it is not so.
int run_verify(const VerifyOptions& options);

}  // namespace tpinfer
