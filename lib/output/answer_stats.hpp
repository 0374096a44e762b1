#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "output/run_result.hpp"

namespace tpinfer {

std::size_t count_prompts(const RunResult& result, PromptStatus status);
std::uint64_t count_tokens(const std::vector<PromptRow>& rows);
std::uint64_t count_tokens(const std::vector<AnswerRow>& rows);

/// Seconds from the first answer queued to the last one finished, summed over the attempts that made answers.
double generation_seconds(const RunResult& result);
/// Of the answers, over the seconds in which they were made.
double tokens_per_second(const RunResult& result);

/// Of values in seconds.
struct Spread {
  double median = 0, p95 = 0, largest = 0;
};
/// Of the answers' times from queueing to `end`.
Spread spread_of(const RunResult& result, double AnswerRow::*end);

/// The highest value among a rank's phases, bytes.
std::uint64_t peak_of(const RankRow& rank, std::uint64_t RankRow::Memory::*field);

}  // namespace tpinfer
