#pragma once

#include <string>
#include <vector>

namespace tpinfer {

struct PlanOptions {
  std::string target;  ///< a job file or a model folder
  std::string ranks;   ///< "4" or "1..8"; empty: 1
  std::string memory;  ///< "80GiB" or one for each rank: "80GiB,40GiB"; empty: this machine's, shared out
  std::vector<std::string> sets;
  bool tensors = false;
  bool json = false;
};

/// `tpinfer plan`: -> exit code, 4 when no rank count fits. Reads JSON and headers only.
int run_plan(const PlanOptions& options);

}  // namespace tpinfer
