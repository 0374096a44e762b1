#pragma once

#include <string>

#include "output/run_result.hpp"
#include "report/html.hpp"

namespace tpinfer {

/// A part of the page under a heading of its own.
struct Section {
  std::string id, title;
  Html body;
};

Section summary_section(const RunResult& result, const std::string& file);
/// Weights by class and memory of each rank: planned against measured.
Section memory_section(const RunResult& result);
/// Which rank holds which part of which tensor.
Section plan_section(const RunResult& result);
/// Rates, batch and cache over time.
Section speed_section(const RunResult& result);
/// Where each rank's seconds went.
Section time_section(const RunResult& result);
/// Lengths of prompts and answers, how they ended.
Section lengths_section(const RunResult& result);
Section slowest_section(const RunResult& result);
Section errors_section(const RunResult& result);
Section environment_section(const RunResult& result);

/// What a journal can not tell.
Html only_at_the_end(std::string_view what);

}  // namespace tpinfer
