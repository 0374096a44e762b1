#pragma once

#include <cstddef>
#include <vector>

#include "output/run_result.hpp"
#include "report/charts.hpp"

namespace tpinfer {

/// The attempts of a job one after the other on one clock, in seconds: each begins where the one before had its last
/// answer or step. The time between them, in which nothing ran, is left out.
struct Timeline {
  std::vector<double> starts;  ///< [attempts]
  double end = 0;
  double at(std::int32_t attempt, double t) const;
};
Timeline timeline_of(const RunResult& result);

/// Tokens of answers made per second, in `bins` spans of the timeline: an answer's tokens spread evenly from its first
/// to its last.
std::vector<Point> token_rate(const RunResult& result, const Timeline& timeline, std::size_t bins);

/// Means of neighbouring points, with their band; at most `most` of them.
void thin(Series& series, double end, std::size_t most);

/// A value of the steps, which are the last attempt's, by time: as it is up to `most` rows, else the mean of spans with
/// a band from the least to the largest.
template <class Value>
Series step_series(const RunResult& result, const Timeline& timeline, std::size_t most, Value value) {
  Series series;
  const auto last = static_cast<std::int32_t>(timeline.starts.size()) - 1;
  for (const StepRow& row : result.steps)
    series.line.push_back({timeline.at(last, row.t), positive(static_cast<double>(row.*value))});
  thin(series, timeline.end, most);
  return series;
}

}  // namespace tpinfer
