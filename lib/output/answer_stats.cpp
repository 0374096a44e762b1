#include "output/answer_stats.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace tpinfer {
namespace {

template <class Row>
std::uint64_t tokens_of(const std::vector<Row>& rows) {
  return std::transform_reduce(rows.begin(), rows.end(), std::uint64_t{0}, std::plus{},
                               [](const Row& row) { return std::uint64_t{row.token_ids.size()}; });
}

}  // namespace

std::size_t count_prompts(const RunResult& r, PromptStatus status) {
  return static_cast<std::size_t>(std::ranges::count(r.prompts, status, &PromptRow::status));
}

std::uint64_t count_tokens(const std::vector<PromptRow>& rows) { return tokens_of(rows); }
std::uint64_t count_tokens(const std::vector<AnswerRow>& rows) { return tokens_of(rows); }

double generation_seconds(const RunResult& r) {
  std::map<std::int32_t, std::pair<double, double>> spans;
  for (const auto& answer : r.answers) {
    auto& [first, last] = spans.try_emplace(answer.attempt, answer.t_queued, answer.t_finished).first->second;
    first = std::min(first, answer.t_queued);
    last = std::max(last, answer.t_finished);
  }
  double seconds = 0;
  for (const auto& [attempt, span] : spans) seconds += span.second - span.first;
  return seconds;
}

double tokens_per_second(const RunResult& r) {
  const double seconds = generation_seconds(r);
  return seconds > 0 ? static_cast<double>(count_tokens(r.answers)) / seconds : 0;
}

Spread spread_of(const RunResult& r, double AnswerRow::*end) {
  std::vector<double> times;
  for (const auto& answer : r.answers) times.push_back(answer.*end - answer.t_queued);
  if (times.empty()) return {};
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  return {at(0.5), at(0.95), at(1)};
}

std::uint64_t peak_of(const RankRow& rank, std::uint64_t RankRow::Memory::*field) {
  std::uint64_t most = 0;
  for (const auto& memory : rank.memory) most = std::max(most, memory.*field);
  return most;
}

}  // namespace tpinfer
