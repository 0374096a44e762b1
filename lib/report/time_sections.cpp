#include <algorithm>

#include "core/units.hpp"
#include "output/answer_stats.hpp"
#include "output/result_names.hpp"
#include "report/charts.hpp"
#include "report/sections.hpp"
#include "report/timeline.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kRateBins = 120, kMostPoints = 240, kMostMarks = 20, kMostBars = 32, kMostRows = 256;

LineChart over_time(const char* id, const char* title, const char* what, const char* y_name, const Timeline& timeline) {
  LineChart chart{.id = id, .title = title, .what = what, .y_name = y_name, .x_end = timeline.end};
  if (timeline.starts.size() <= kMostMarks && timeline.starts.size() > 1)
    chart.marks.assign(timeline.starts.begin() + 1, timeline.starts.end());
  return chart;
}

Series named(Series series, const char* name, int colour, bool dashed = false) {
  series.name = name;
  series.colour = colour;
  series.dashed = dashed;
  return series;
}

Html rate_chart(const RunResult& r, const Timeline& timeline) {
  LineChart chart = over_time("rate", "Throughput", "Tokens of answers made per second over the time of the run.",
                              "tokens per second", timeline);
  chart.series.push_back({.name = "tokens of answers", .colour = 0, .line = token_rate(r, timeline, kRateBins)});
  return draw(chart);
}

Html step_charts(const RunResult& r, const Timeline& timeline) {
  LineChart batch =
      over_time("batch", "Batch size", "Sequences in a step, and samples that wait, over time.", "sequences", timeline);
  batch.series.push_back(named(step_series(r, timeline, kMostPoints, &StepRow::sequences), "sequences in a step", 0));
  batch.series.push_back(named(step_series(r, timeline, kMostPoints, &StepRow::waiting), "samples waiting", 1, true));
  LineChart tokens = over_time("tokens", "Tokens in a step",
                               "Tokens that a step computes, of prompts and answers, over time.", "tokens", timeline);
  tokens.series.push_back(named(step_series(r, timeline, kMostPoints, &StepRow::tokens), "tokens in a step", 2));
  LineChart cache =
      over_time("cache", "KV cache", "Blocks of the KV cache in use over time.", "blocks in use", timeline);
  cache.series.push_back(named(step_series(r, timeline, kMostPoints, &StepRow::kv_blocks_used), "blocks in use", 5));
  return html("{}{}{}", draw(batch), draw(cache), draw(tokens));
}

Html wait_table(const RunResult& r) {
  HtmlTable table({"seconds after queueing", "median", "95 %", "largest"});
  const auto add = [&](const char* name, const Spread& s) {
    table.row({name, fmt::format("{:.3f}", s.median), fmt::format("{:.3f}", s.p95), fmt::format("{:.3f}", s.largest)});
  };
  add("to the first token", spread_of(r, &AnswerRow::t_first_token));
  add("to the end of the answer", spread_of(r, &AnswerRow::t_finished));
  return table.done();
}

std::vector<double> lengths(const auto& rows) {
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(static_cast<double>(row.token_ids.size()));
  return values;
}

Html length_chart(const char* id, const char* title, const char* what, const char* y_name,
                  const std::vector<double>& values, int colour) {
  Histogram chart = histogram_of(values);
  chart.id = id;
  chart.title = title;
  chart.what = what;
  chart.x_name = "tokens";
  chart.y_name = y_name;
  chart.colour = colour;
  return draw(chart);
}

Html ends_chart(const RunResult& r) {
  BarChart chart{.id = "ends",
                 .title = "How answers ended",
                 .what = "Number of answers by reason of their end.",
                 .unit = Unit::count};
  chart.kinds = {{"answers", 2}};
  for (std::size_t reason = 0; reason < kFinishReasonNames.size(); ++reason) {
    const auto count = std::ranges::count(r.answers, static_cast<FinishReason>(reason), &AnswerRow::finish_reason);
    if (count > 0) chart.bars.push_back({kFinishReasonNames[reason], {static_cast<double>(count)}});
  }
  return draw(chart);
}

Html states_chart(const RunResult& r) {
  BarChart chart{.id = "states",
                 .title = "What became of the prompts",
                 .what = "Number of prompts by their status.",
                 .unit = Unit::count};
  chart.kinds = {{"prompts", 0}};
  for (std::size_t status = 0; status < kPromptStatusNames.size(); ++status)
    if (const auto count = count_prompts(r, static_cast<PromptStatus>(status)); count > 0)
      chart.bars.push_back({kPromptStatusNames[status], {static_cast<double>(count)}});
  return draw(chart);
}

}  // namespace

Section speed_section(const RunResult& r) {
  Section section{"speed", "Over time", {}};
  const Timeline timeline = timeline_of(r);
  if (r.answers.empty() || timeline.end <= 0) {
    section.body = note("There are no answers yet.");
    return section;
  }
  section.body = html("<div class=\"grid\">{}{}</div>\n", rate_chart(r, timeline),
                      r.steps.empty() ? Html() : step_charts(r, timeline));
  section.body += note(fmt::format(
      "Seconds since the program began, loading included.{}{}",
      timeline.starts.size() > 1 ? " Attempts are drawn one after the other, upright lines show where one begins; "
                                   "steps are kept of the last one."
                                 : "",
      r.steps.size() > kMostPoints ? " Bands reach from the least to the largest of neighbouring steps." : ""));
  if (r.steps.empty()) section.body += only_at_the_end("Batch sizes and the use of the KV cache");
  section.body += wait_table(r);
  return section;
}

Section time_section(const RunResult& r) {
  Section section{"time", "Where the time went", {}};
  if (r.ranks.empty()) {
    section.body = only_at_the_end("How each rank spent its time");
    return section;
  }
  BarChart chart{
      .id = "times",
      .title = "Seconds of each rank",
      .what = "For each rank a bar of the seconds spent computing, communicating, sampling, waiting and with files.",
      .unit = Unit::seconds,
      .kinds = {{"compute", 0}, {"communication", 1}, {"sampling", 2}, {"wait", 3}, {"files", 4}}};
  HtmlTable table({"rank", "compute", "communication", "sampling", "wait", "files", "collectives", "bytes in them"});
  const auto seconds = [](double s) { return fmt::format("{:.2f} s", s); };
  for (const RankRow& rank : r.ranks) {
    const auto& t = rank.time;
    if (chart.bars.size() < kMostBars)
      chart.bars.push_back({fmt::format("rank {}", rank.rank), {t.compute, t.communication, t.sampling, t.wait, t.io}});
    if (static_cast<std::size_t>(&rank - r.ranks.data()) < kMostRows)
      table.row({fmt::format("{}", rank.rank), seconds(t.compute), seconds(t.communication), seconds(t.sampling),
                 seconds(t.wait), seconds(t.io), format_count(t.collectives), format_bytes(t.collective_bytes)});
  }
  section.body = html("<div class=\"grid\">{}</div>\n", draw(chart));
  if (r.ranks.size() > kMostBars)
    section.body += note(fmt::format("The first {} of {} ranks are drawn.", kMostBars, r.ranks.size()));
  section.body += folded("Each rank in figures", table.done());
  return section;
}

Section lengths_section(const RunResult& r) {
  Section section{"lengths", "Lengths and ends", {}};
  section.body = Html("<div class=\"grid\">");
  if (!r.prompts.empty())
    section.body += length_chart("plen", "Lengths of prompts", "Number of prompts by their length in tokens.",
                                 "prompts", lengths(r.prompts), 0);
  if (!r.answers.empty())
    section.body += length_chart("alen", "Lengths of answers", "Number of answers by their length in tokens.",
                                 "answers", lengths(r.answers), 2);
  if (!r.prompts.empty()) section.body += states_chart(r);
  if (!r.answers.empty()) section.body += ends_chart(r);
  section.body += Html("</div>\n");
  if (r.prompts.empty()) section.body = note("There are no prompts.");
  return section;
}

}  // namespace tpinfer
