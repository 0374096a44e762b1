#include "app/cmd_diff.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "app/table.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "core/units.hpp"
#include "output/stored_answers.hpp"

namespace tpinfer {
namespace {

constexpr int kDifferent = 1;
constexpr std::size_t kValueCells = 40;

std::string plural(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", format_count(count), word, count == 1 ? "" : "s");
}

Json diff_json(const ResultDiff& diff) {
  Json counts = Json::object(), first = Json::array();
  for (std::size_t i = 0; i < diff.counts.size(); ++i)
    if (diff.counts[i] > 0) counts[kDiffKindNames[i]] = diff.counts[i];
  for (const Difference& d : diff.first) {
    Json entry{{"kind", name_of(d.kind)}, {"id", d.id}};
    if (d.sample >= 0) entry["sample_index"] = d.sample;
    if (d.position >= 0) entry["position"] = d.position;
    entry["a"] = d.a;
    entry["b"] = d.b;
    first.push_back(std::move(entry));
  }
  // JSON has no infinity: null where one log probability is no number
  const double largest = diff.largest_logprob_difference;
  return {
      {"same", diff.same()},     {"prompts", diff.prompts},
      {"answers", diff.answers}, {"tokens", diff.tokens},
      {"counts", counts},        {"largest_logprob_difference", std::isfinite(largest) ? Json(largest) : Json(nullptr)},
      {"first", first},          {"notes", diff.notes}};
}

void print_difference(const Difference& d) {
  std::string where = fmt::format("[{}]", printable(d.id));
  if (d.sample >= 0) where += fmt::format(" sample {}", d.sample);
  where += fmt::format(" {}", name_of(d.kind));
  if (d.position >= 0) where += fmt::format(" at {}", d.position);
  if (d.kind == DiffKind::only_in_a || d.kind == DiffKind::only_in_b)
    fmt::print("  {}: {}\n", where, d.a.empty() ? d.b : d.a);
  else
    fmt::print("  {}: {} | {}\n", where, one_line(d.a, kValueCells), one_line(d.b, kValueCells));
}

void print_diff(const DiffCommand& command, const ResultDiff& diff) {
  const std::string compared = fmt::format("{}, {}, {}", plural(diff.prompts, "prompt"), plural(diff.answers, "answer"),
                                           plural(diff.tokens, "token"));
  for (const std::string& note : diff.notes) fmt::print("note: {}\n", printable(note));
  if (diff.same()) {
    fmt::print("{}: {}", command.paint.good("same answers"), compared);
    if (diff.largest_logprob_difference > 0)
      fmt::print("; log probabilities differ by at most {:.3g}", diff.largest_logprob_difference);
    fmt::print("\n");
    return;
  }
  fmt::print("{}: {} compared (a = {}, b = {})\n", command.paint.error("different"), compared, command.a.string(),
             command.b.string());
  Table counts({"differing in", "rows"});
  for (std::size_t i = 0; i < diff.counts.size(); ++i)
    if (diff.counts[i] > 0) counts.row({kDiffKindNames[i], format_count(diff.counts[i])});
  fmt::print("{}", counts.text());
  if (diff.largest_logprob_difference > 0)
    fmt::print("largest difference of a log probability: {:.3g}\n", diff.largest_logprob_difference);
  fmt::print("the first differences, a | b\n");
  for (const Difference& d : diff.first) print_difference(d);
}

}  // namespace

int run_diff(const DiffCommand& command) {
  const ResultDiff diff = diff_results(read_answers(command.a), command.a.string(), read_answers(command.b),
                                       command.b.string(), command.options);
  if (command.json)
    fmt::print("{}\n", diff_json(diff).dump(1, ' ', false, Json::error_handler_t::replace));
  else
    print_diff(command, diff);
  if (std::fflush(stdout) != 0)
    throw Error(ExitCode::output, "standard output cannot be written", "make room where it goes");
  return diff.same() ? static_cast<int>(ExitCode::ok) : kDifferent;
}

}  // namespace tpinfer
