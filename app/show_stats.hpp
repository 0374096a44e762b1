#pragma once

#include <string>

#include "core/json.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

/// "2 node-1"
std::string rank_label(const RankRow& rank);

/// `tpinfer show --stats`: counts, rates, and where the time of each rank went.
Json stats_json(const RunResult& result);
void print_stats(const RunResult& result);

}  // namespace tpinfer
