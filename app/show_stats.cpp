#include "app/show_stats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "app/table.hpp"
#include "core/units.hpp"

namespace tpinfer {
namespace {

template <class Row>
std::uint64_t tokens_of(const std::vector<Row>& rows) {
  return std::transform_reduce(rows.begin(), rows.end(), std::uint64_t{0}, std::plus{},
                               [](const Row& row) { return std::uint64_t{row.token_ids.size()}; });
}

/// Seconds from the first answer queued to the last one finished, summed over the attempts that made answers.
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

/// Median, 95th percentile and largest of the answers' times, in seconds.
std::array<double, 3> spread(const RunResult& r, double AnswerRow::*end) {
  std::vector<double> times;
  for (const auto& answer : r.answers) times.push_back(answer.*end - answer.t_queued);
  if (times.empty()) return {};
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
  };
  return {at(0.5), at(0.95), at(1)};
}

}  // namespace

std::uint64_t count_tokens(const std::vector<PromptRow>& rows) { return tokens_of(rows); }
std::uint64_t count_tokens(const std::vector<AnswerRow>& rows) { return tokens_of(rows); }

double tokens_per_second(const RunResult& r) {
  const double seconds = generation_seconds(r);
  return seconds > 0 ? static_cast<double>(count_tokens(r.answers)) / seconds : 0;
}

std::string rank_label(const RankRow& rank) { return fmt::format("{} {}", rank.rank, printable(rank.host)); }

Json stats_json(const RunResult& r) {
  const auto to_json = [](const std::array<double, 3>& s) {
    return Json{{"median", s[0]}, {"p95", s[1]}, {"max", s[2]}};
  };
  Json ranks = Json::array();
  for (const auto& rank : r.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"load_seconds", rank.weights.load_seconds},
                     {"compute", rank.time.compute},
                     {"communication", rank.time.communication},
                     {"sampling", rank.time.sampling},
                     {"wait", rank.time.wait},
                     {"io", rank.time.io},
                     {"collectives", rank.time.collectives},
                     {"collective_bytes", rank.time.collective_bytes}});
  return {{"seconds", generation_seconds(r)},
          {"tokens_per_second", tokens_per_second(r)},
          {"first_token_seconds", to_json(spread(r, &AnswerRow::t_first_token))},
          {"answer_seconds", to_json(spread(r, &AnswerRow::t_finished))},
          {"ranks", ranks}};
}

void print_stats(const RunResult& r) {
  fmt::print("{} answers of {} tokens in {:.2f} s, {:.1f} tokens/s\n", r.answers.size(),
             format_count(count_tokens(r.answers)), generation_seconds(r), tokens_per_second(r));
  Table waits({"seconds after queueing", "median", "95 %", "largest"});
  const auto add = [&](const char* name, const std::array<double, 3>& s) {
    waits.row({name, fmt::format("{:.3f}", s[0]), fmt::format("{:.3f}", s[1]), fmt::format("{:.3f}", s[2])});
  };
  add("to the first token", spread(r, &AnswerRow::t_first_token));
  add("to the end", spread(r, &AnswerRow::t_finished));
  Table ranks({"rank", "loading", "compute", "communication", "sampling", "waiting", "io", "collectives", "bytes"});
  const auto seconds = [](double s) { return fmt::format("{:.2f} s", s); };
  for (const auto& rank : r.ranks)
    ranks.row({rank_label(rank), seconds(rank.weights.load_seconds), seconds(rank.time.compute),
               seconds(rank.time.communication), seconds(rank.time.sampling), seconds(rank.time.wait),
               seconds(rank.time.io), format_count(rank.time.collectives), format_bytes(rank.time.collective_bytes)});
  fmt::print("\n{}\n{}", waits.text(), ranks.text());
}

}  // namespace tpinfer
