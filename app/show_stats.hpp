#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

std::uint64_t count_tokens(const std::vector<PromptRow>& rows);
std::uint64_t count_tokens(const std::vector<AnswerRow>& rows);
/// Of the answers, over the seconds in which they were made.
double tokens_per_second(const RunResult& result);
/// "2 node-1"
std::string rank_label(const RankRow& rank);

/// `tpinfer show --stats`: counts, rates, and where the time of each rank went.
Json stats_json(const RunResult& result);
void print_stats(const RunResult& result);

}  // namespace tpinfer
