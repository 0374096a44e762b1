#include "report/timeline.hpp"

#include <algorithm>

namespace tpinfer {

double Timeline::at(std::int32_t attempt, double t) const {
  if (starts.empty()) return positive(t);
  const auto last = static_cast<std::int32_t>(starts.size()) - 1;
  return starts[static_cast<std::size_t>(std::clamp(attempt, 0, last))] + positive(t);
}

Timeline timeline_of(const RunResult& r) {
  std::vector<double> length(std::max<std::size_t>(r.attempts.size(), 1), 0);
  for (const AnswerRow& answer : r.answers) {
    const auto attempt = static_cast<std::size_t>(std::max(answer.attempt, 0));
    double& mine = length[std::min(attempt, length.size() - 1)];
    mine = std::max(mine, positive(answer.t_finished));
  }
  for (const StepRow& step : r.steps) length.back() = std::max(length.back(), positive(step.t));
  Timeline timeline;
  for (const double seconds : length) {
    timeline.starts.push_back(timeline.end);
    timeline.end += seconds;
  }
  return timeline;
}

std::vector<Point> token_rate(const RunResult& r, const Timeline& timeline, std::size_t bins) {
  if (timeline.end <= 0 || r.answers.empty()) return {};
  const double width = timeline.end / static_cast<double>(bins);
  std::vector<double> tokens(bins, 0);
  const auto bin_of = [&](double t) {
    return static_cast<std::size_t>(std::min(positive(t) / width, static_cast<double>(bins - 1)));
  };
  for (const AnswerRow& answer : r.answers) {
    if (answer.token_ids.empty()) continue;
    const double first = timeline.at(answer.attempt, answer.t_first_token);
    const double last = timeline.at(answer.attempt, answer.t_finished);
    tokens[bin_of(first)] += 1;
    const double more = static_cast<double>(answer.token_ids.size() - 1);
    if (last <= first) {
      tokens[bin_of(last)] += more;
      continue;
    }
    for (std::size_t bin = bin_of(first); bin <= bin_of(last); ++bin) {
      const double from = std::max(first, width * static_cast<double>(bin));
      const double to = std::min(last, width * static_cast<double>(bin + 1));
      tokens[bin] += more * std::max(to - from, 0.0) / (last - first);
    }
  }
  std::vector<Point> line;
  for (std::size_t bin = 0; bin < bins; ++bin)
    line.push_back({width * (static_cast<double>(bin) + 0.5), tokens[bin] / width});
  return line;
}

void thin(Series& series, double end, std::size_t most) {
  if (series.line.size() <= most || end <= 0) return;
  struct Span {
    double x = 0, y = 0, low = 0, high = 0;
    std::size_t count = 0;
  };
  std::vector<Span> spans(most);
  for (const Point& p : series.line) {
    Span& span = spans[std::min(static_cast<std::size_t>(p.x / end * static_cast<double>(most)), most - 1)];
    span.low = span.count == 0 ? p.y : std::min(span.low, p.y);
    span.high = std::max(span.high, p.y);
    span.x += p.x;
    span.y += p.y;
    ++span.count;
  }
  series.line.clear();
  for (const Span& span : spans) {
    if (span.count == 0) continue;
    const double x = span.x / static_cast<double>(span.count);
    series.line.push_back({x, span.y / static_cast<double>(span.count)});
    series.low.push_back({x, span.low});
    series.high.push_back({x, span.high});
  }
}

}  // namespace tpinfer
