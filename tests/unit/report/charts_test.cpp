#include "report/charts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "report/plan_picture.hpp"
#include "report/timeline.hpp"

namespace tpinfer::test {
namespace {

std::string labels(const Axis& axis) {
  std::string text;
  for (const auto& tick : axis.ticks) text += (text.empty() ? "" : " ") + tick.label;
  return text + (axis.unit.empty() ? "" : " " + axis.unit);
}

TEST(ReportAxis, TicksAreRoundInAUnitThatFits) {
  EXPECT_EQ(labels(make_axis(37, Unit::count)), "0 10 20 30 40");
  EXPECT_EQ(labels(make_axis(2, Unit::count)), "0 1 2");
  EXPECT_EQ(labels(make_axis(1, Unit::count)), "0 1");
  EXPECT_EQ(labels(make_axis(123'456, Unit::count)), "0 50,000 100,000 150,000");
  EXPECT_EQ(labels(make_axis(13.02e9, Unit::bytes)), "0 5 10 15 GB");
  EXPECT_EQ(labels(make_axis(3, Unit::bytes)), "0 1 2 3 B");
  EXPECT_EQ(labels(make_axis(0.9, Unit::seconds)), "0 200 400 600 800 1000 ms");
  EXPECT_EQ(labels(make_axis(2.2, Unit::seconds)), "0 0.5 1 1.5 2 2.5 s");
  EXPECT_EQ(labels(make_axis(100, Unit::seconds)), "0 20 40 60 80 100 s");
  EXPECT_EQ(labels(make_axis(600, Unit::seconds)), "0 2 4 6 8 10 min");
  EXPECT_EQ(labels(make_axis(5 * 3600, Unit::seconds)), "0 1 2 3 4 5 h");
  EXPECT_EQ(labels(make_axis(0.7, Unit::rate)), "0 0.2 0.4 0.6 0.8");
  EXPECT_EQ(make_axis(13.02e9, Unit::bytes).named(13.02e9), "13 GB");
  EXPECT_EQ(make_axis(1.5e6, Unit::bytes).named(1.5e6), "1.5 MB");
}

TEST(ReportAxis, CoversAnyValueInFewSteps) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-6, 17);
  for (int i = 0; i < 2000; ++i) {
    const double largest = std::pow(10, exponent(random));
    for (const Unit unit : {Unit::count, Unit::bytes, Unit::seconds, Unit::rate}) {
      const Axis axis = make_axis(largest, unit, 5);
      ASSERT_GE(axis.end * (1 + 1e-9), largest);
      ASSERT_LE(axis.ticks.size(), 7U) << largest;
      ASSERT_GE(axis.ticks.size(), 2U) << largest;
      ASSERT_DOUBLE_EQ(axis.ticks.back().value, axis.end);
    }
  }
  for (const double odd : {0.0, -5.0, std::nan(""), HUGE_VAL, -HUGE_VAL})
    EXPECT_EQ(labels(make_axis(odd, Unit::rate)), labels(make_axis(1, Unit::rate))) << odd;
}

TEST(ReportHistogram, CountsEachValueOnceInRoundColumns) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i);
  const Histogram h = histogram_of(values);
  EXPECT_EQ(h.bin, 50);
  EXPECT_EQ(h.counts.size(), 20U);
  EXPECT_EQ(std::accumulate(h.counts.begin(), h.counts.end(), 0.0), 1000);
  EXPECT_EQ(h.counts[0], 50);
  EXPECT_EQ(histogram_of({7}).counts[7], 1);
  EXPECT_TRUE(histogram_of({}).counts.empty());
}

AnswerRow answer(std::int32_t attempt, double first, double last, std::size_t tokens) {
  AnswerRow row;
  row.attempt = attempt;
  row.t_first_token = first;
  row.t_finished = last;
  row.token_ids.resize(tokens);
  return row;
}

TEST(ReportTimeline, RatesAddUpToTheTokens) {
  RunResult r;
  r.attempts.resize(2);
  r.answers = {answer(0, 1, 4, 31), answer(0, 2, 2, 1), answer(1, 0.5, 6, 200), answer(1, 6, 6, 8)};
  r.steps = {{.t = 6.0}};
  const Timeline timeline = timeline_of(r);
  EXPECT_EQ(timeline.starts, (std::vector<double>{0, 4}));
  EXPECT_EQ(timeline.end, 10);
  EXPECT_EQ(timeline.at(1, 2), 6);
  for (const std::size_t bins : {1U, 7U, 100U}) {
    double tokens = 0;
    for (const Point& p : token_rate(r, timeline, bins)) tokens += p.y * timeline.end / static_cast<double>(bins);
    EXPECT_NEAR(tokens, 240, 1e-6) << bins;
  }
  const auto ten = token_rate(r, timeline, 10);
  EXPECT_EQ(ten[0].y, 0);               // loading
  EXPECT_NEAR(ten[1].y, 1 + 10, 1e-9);  // a first token and a third of the others
}

TEST(ReportTimeline, LongSeriesBecomeMeansWithABand) {
  RunResult r;
  for (int i = 0; i < 1000; ++i) r.steps.push_back({.t = i + 1.0, .sequences = i % 2 == 0 ? 10 : 30});
  const Series thick = step_series(r, timeline_of(r), 2000, &StepRow::sequences);
  EXPECT_EQ(thick.line.size(), 1000U);
  EXPECT_TRUE(thick.high.empty());
  const Series thin = step_series(r, timeline_of(r), 50, &StepRow::sequences);
  ASSERT_EQ(thin.line.size(), 50U);
  EXPECT_NEAR(thin.line[20].y, 20, 1);
  EXPECT_EQ(thin.low[20].y, 10);
  EXPECT_EQ(thin.high[20].y, 30);
}

void add_tensor(RunResult& r, const std::string& name, std::int64_t rows, std::int64_t cut) {
  const auto t = static_cast<std::int64_t>(r.plan_tensors.size());
  r.plan_tensors.push_back(
      {.name = name, .role = "q", .dtype = "bfloat16", .split = "query_heads", .shape = {rows, 8}});
  r.plan_slices.push_back({.tensor = t, .rank = 0, .axis = 0, .start = 0, .count = cut, .bytes = 16});
  r.plan_slices.push_back({.tensor = t, .rank = 1, .axis = 0, .start = cut, .count = rows - cut, .bytes = 16});
}

TEST(ReportPlan, TensorsCutAlikeAreOneStrip) {
  RunResult r;
  r.tensor_parallel_size = 2;
  for (const int layer : {0, 1, 2, 5}) add_tensor(r, "model.layers." + std::to_string(layer) + ".q.weight", 16, 8);
  add_tensor(r, "model.layers.3.q.weight", 16, 9);  // another cut
  for (int expert = 0; expert < 3; ++expert)
    add_tensor(r, "model.layers.0.experts." + std::to_string(expert) + ".w1.weight", 16, 8);
  add_tensor(r, "head.w1", 16, 8);  // a name with a digit, no number
  const auto groups = plan_groups(r);
  std::vector<std::string> names;
  for (const auto& g : groups) names.push_back(g.name + " x" + std::to_string(g.tensors));
  EXPECT_EQ(names, (std::vector<std::string>{"model.layers.{0-2, 5}.q.weight x4", "model.layers.3.q.weight x1",
                                             "model.layers.0.experts.{0-2}.w1.weight x3", "head.w1 x1"}));
  const std::string picture = plan_picture(r).markup();
  EXPECT_NE(picture.find("rank 1: 9 to 15 (16 B)"), std::string::npos) << picture;
  EXPECT_NE(picture.find("d=\"M562.5 "), std::string::npos) << picture;  // from 9/16 on
}

TEST(ReportPlan, ManyRanksAndTensorsStayBounded) {
  RunResult r;
  r.tensor_parallel_size = 512;
  for (int t = 0; t < 2000; ++t) {
    r.plan_tensors.push_back(
        {.name = "t" + std::to_string(t), .role = "q", .dtype = "bfloat16", .split = "rows", .shape = {4096 + t, 8}});
    for (int rank = 0; rank < 512; ++rank)
      r.plan_slices.push_back({.tensor = t, .rank = rank, .axis = 0, .start = 8 * rank, .count = 8, .bytes = 16});
  }
  const std::string picture = plan_picture(r).markup();
  EXPECT_LT(picture.size(), 500'000U);
  EXPECT_NE(picture.find("more kinds of tensors are not drawn"), std::string::npos);
  EXPECT_NE(picture.find("The first 32 of 512 ranks are drawn."), std::string::npos);
}

}  // namespace
}  // namespace tpinfer::test
