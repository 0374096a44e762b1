#pragma once

#include "app/paint.hpp"

namespace tpinfer {

struct InfoOptions {
  bool json = false;
  Paint paint;  ///< of standard output
};

/// `tpinfer info`: build, libraries, this host, and under a launcher every rank; what is well and what is not, with
/// what to do. MPI is initialised where a launcher started this. -> exit code 0, also with warnings.
int run_info(const InfoOptions& options);

}  // namespace tpinfer
