#pragma once

#include <string>

#include "output/run_result.hpp"

namespace tpinfer {

/// One HTML page about a run that needs nothing from elsewhere and has no script; `file`: the name it was read from.
/// All texts of prompts, answers and files are escaped. Its size does not grow with the number of prompts.
std::string report_page(const RunResult& result, const std::string& file);

}  // namespace tpinfer
