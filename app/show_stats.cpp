#include "app/show_stats.hpp"

#include <fmt/format.h>

#include "app/table.hpp"
#include "core/units.hpp"
#include "output/answer_stats.hpp"

namespace tpinfer {

std::string rank_label(const RankRow& rank) { return fmt::format("{} {}", rank.rank, printable(rank.host)); }

Json stats_json(const RunResult& r) {
  const auto to_json = [](const Spread& s) { return Json{{"median", s.median}, {"p95", s.p95}, {"max", s.largest}}; };
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
          {"first_token_seconds", to_json(spread_of(r, &AnswerRow::t_first_token))},
          {"answer_seconds", to_json(spread_of(r, &AnswerRow::t_finished))},
          {"ranks", ranks}};
}

void print_stats(const RunResult& r) {
  fmt::print("{} answers of {} tokens in {:.2f} s, {:.1f} tokens/s\n", r.answers.size(),
             format_count(count_tokens(r.answers)), generation_seconds(r), tokens_per_second(r));
  Table waits({"seconds after queueing", "median", "95 %", "largest"});
  const auto add = [&](const char* name, const Spread& s) {
    waits.row({name, fmt::format("{:.3f}", s.median), fmt::format("{:.3f}", s.p95), fmt::format("{:.3f}", s.largest)});
  };
  add("to the first token", spread_of(r, &AnswerRow::t_first_token));
  add("to the end", spread_of(r, &AnswerRow::t_finished));
  Table ranks({"rank", "loading", "compute", "communication", "sampling", "waiting", "io", "collectives", "bytes"});
  const auto seconds = [](double s) { return fmt::format("{:.2f} s", s); };
  for (const auto& rank : r.ranks)
    ranks.row({rank_label(rank), seconds(rank.weights.load_seconds), seconds(rank.time.compute),
               seconds(rank.time.communication), seconds(rank.time.sampling), seconds(rank.time.wait),
               seconds(rank.time.io), format_count(rank.time.collectives), format_bytes(rank.time.collective_bytes)});
  fmt::print("\n{}\n{}", waits.text(), ranks.text());
}

}  // namespace tpinfer
