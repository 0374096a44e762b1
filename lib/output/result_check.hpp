#pragma once

#include <string>
#include <vector>

#include "output/run_result.hpp"

namespace tpinfer {

/// One thing that a sound result is proved by.
struct ResultCheck {
  bool good = true;
  std::string what;  ///< what holds, or the first place where it does not
};

/// What read_result_file leaves open: is every prompt answered, do answers and log probabilities belong together, does
/// the plan cover the model, is what each rank loaded what was planned, and the same where ranks hold the same?
std::vector<ResultCheck> check_result(const RunResult& result);

}  // namespace tpinfer
