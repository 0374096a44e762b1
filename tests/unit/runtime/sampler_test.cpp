#include "runtime/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace tpinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Random, PhiloxKnownAnswers) {  // kat_vectors of the Random123 library
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, ADrawIsTheFirst53BitsAtItsPlace) {
  const double first = static_cast<double>(0x6627e8d5e169c58dULL >> 11) * 0x1p-53;
  EXPECT_EQ(uniform_draw({}), first);
  const DrawKey pi{
      .seed = 0x299f31d0a4093822, .prompt = 0x85a308d3243f6a88, .sample = 0x13198a2e, .position = 0x3707344};
  EXPECT_EQ(uniform_draw(pi), static_cast<double>(0xd16cfe0994fdccebULL >> 11) * 0x1p-53);
  std::set<double> draws;
  for (const DrawKey& key : {DrawKey{},
                             {.seed = 1},
                             {.seed = 1ULL << 32},
                             {.prompt = 1},
                             {.prompt = 1ULL << 32},
                             {.sample = 1},
                             {.position = 1}})
    draws.insert(uniform_draw(key));
  EXPECT_EQ(draws.size(), 7U);
}

SamplingParams sampled(double temperature = 1.0) {
  SamplingParams params;
  params.do_sample = true;
  params.temperature = temperature;
  return params;
}

const std::vector<float> kLogits{2.0F, -1.0F, 0.5F, 0.0F, 1.5F, -3.0F, 1.0F, 0.25F, -0.5F, 1.75F, -2.0F, 0.75F};

SampleContext context_at(const DrawKey& draw) {
  return {.eos_ids = {}, .allowed_ids = {}, .tokens = {}, .bad_words = {}, .draw = draw};
}

// Pearson's statistic of 20,000 draws, one key each.
double chi_square(const SamplingParams& params, const std::function<DrawKey(std::uint32_t)>& key) {
  constexpr int kDraws = 20000;
  const Distribution d = next_token_distribution(kLogits, params, context_at({}));
  std::map<std::int32_t, int> count;
  for (std::uint32_t i = 0; i < kDraws; ++i) ++count[sample_token(kLogits, params, context_at(key(i)))];
  double sum = 0;
  for (std::size_t i = 0; i < d.ids.size(); ++i) {
    const double expected = d.probabilities[i] * kDraws;
    EXPECT_GT(expected, 5.0);
    sum += (count[d.ids[i]] - expected) * (count[d.ids[i]] - expected) / expected;
    count.erase(d.ids[i]);
  }
  EXPECT_TRUE(count.empty()) << "an id outside the distribution was drawn";
  return sum;
}

TEST(Sampler, DrawsFollowTheDistribution) {
  SamplingParams params = sampled();
  constexpr double kMost = 31.3;  // 99.9 % of chi-square with 11 degrees of freedom
  EXPECT_LT(chi_square(params, [](std::uint32_t i) { return DrawKey{.seed = 7, .position = i}; }), kMost);
  EXPECT_LT(chi_square(params, [](std::uint32_t i) { return DrawKey{.seed = i}; }), kMost);
  EXPECT_LT(chi_square(params, [](std::uint32_t i) { return DrawKey{.seed = 7, .prompt = i}; }), kMost);
  EXPECT_LT(chi_square(params, [](std::uint32_t i) { return DrawKey{.seed = 7, .sample = i}; }), kMost);
  params.temperature = 0.8;
  params.top_k = 8;
  params.top_p = 0.9;
  EXPECT_LT(chi_square(params, [](std::uint32_t i) { return DrawKey{.seed = 3, .position = i}; }), 24.4);
}

TEST(Sampler, ADrawDependsOnItsKeyAlone) {
  const SamplingParams params = sampled(5.0);
  int different = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const auto at = [&](std::uint64_t prompt) {
      return sample_token(kLogits, params, context_at({.seed = 1, .prompt = prompt, .position = i}));
    };
    EXPECT_EQ(at(11), at(11));
    different += at(11) != at(12) ? 1 : 0;
  }
  EXPECT_GT(different, 100);  // equal seeds on different prompts give different draws
}

TEST(Sampler, GreedyTakesTheLowestOfEqualIds) {
  const std::vector<float> tie{1.0F, 3.0F, 2.0F, 3.0F, 3.0F};
  EXPECT_EQ(sample_token(tie, {}, context_at({})), 1);
  const SamplingParams cold = sampled(0);
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(sample_token(tie, cold, context_at({.seed = seed})), 1);
  const std::vector<float> zeros{-0.0F, 0.0F};
  EXPECT_EQ(sample_token(zeros, {}, context_at({})), 0);
}

TEST(Sampler, NoIdIsTakenWhenNoneMayCome) {
  const std::vector<float> logits{-std::numeric_limits<float>::infinity(), 1.0F};
  const std::vector<std::uint8_t> allowed{1, 0};
  const SampleContext context{.eos_ids = {}, .allowed_ids = allowed, .tokens = {}, .bad_words = {}, .draw = {}};
  SamplingParams params;
  EXPECT_EQ(sample_token(logits, params, context), -1);
  params.do_sample = true;
  EXPECT_EQ(sample_token(logits, params, context), -1);
  params.allow_unknown_ids = true;
  EXPECT_EQ(sample_token(logits, params, context), 1);
}

TEST(Sampler, MaskedIdsNeverCome) {
  std::vector<std::uint8_t> allowed(kLogits.size(), 1);
  allowed[0] = allowed[9] = 0;  // the two best
  const std::vector<std::int32_t> eos{4};
  SampleContext context{.eos_ids = eos, .allowed_ids = allowed, .tokens = {}, .bad_words = {}, .draw = {}};
  SamplingParams params;
  params.min_new_tokens = 2;
  EXPECT_EQ(sample_token(kLogits, params, context), 6);  // 4 is an end token and too early
  const std::vector<std::int32_t> two{1, 2};
  context.tokens = two;
  EXPECT_EQ(sample_token(kLogits, params, context), 4);
  context.tokens = std::span(two).first(1);
  params.do_sample = true;
  params.temperature = 10;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    context.draw.position = i;
    const std::int32_t id = sample_token(kLogits, params, context);
    ASSERT_TRUE(id != 0 && id != 9 && id != 4) << id;
  }
  params = {};
  params.allow_unknown_ids = true;
  EXPECT_EQ(sample_token(kLogits, params, context), 0);
}

TEST(RowStatistics, AreThoseOfLongDouble) {
  std::mt19937 engine(5);
  for (const std::size_t vocab : {1U, 2U, 15U, 16U, 17U, 321U, 2048U, 50257U}) {
    for (const float spread : {0.01F, 3.0F, 60.0F}) {
      std::vector<float> logits(vocab);
      for (float& v : logits) v = std::normal_distribution<float>(0, spread)(engine);
      if (vocab > 2) logits[vocab / 2] = -kInfinity;  // a masked row of the head is legal
      const long double best = *std::ranges::max_element(logits);
      long double sum = 0;
      for (const float v : logits) sum += std::exp(static_cast<long double>(v) - best);
      const RowStatistics row = row_statistics(logits);
      EXPECT_TRUE(row.finite);
      EXPECT_NEAR(row.log_normaliser, static_cast<double>(best + std::log(sum)), 2e-7) << vocab << " x " << spread;
    }
  }
}

TEST(RowStatistics, RowsThatAreNoNumbersAreReported) {
  for (const float bad : {kNan, kInfinity}) {
    for (const std::size_t at : {0U, 7U, 11U}) {
      std::vector<float> logits = kLogits;
      logits[at] = bad;
      EXPECT_FALSE(row_statistics(logits).finite) << bad << " at " << at;
    }
  }
  EXPECT_FALSE(row_statistics(std::vector<float>(5, -kInfinity)).finite);
  EXPECT_TRUE(row_statistics(kLogits).finite);
}

TEST(TopLogprobs, BestFirstAndTiesInAscendingId) {
  std::mt19937 engine(9);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(static_cast<std::size_t>(1 + engine() % 40));
    for (float& v : logits) v = static_cast<float>(engine() % 8);  // many ties
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](auto id) { return logits[static_cast<std::size_t>(id)]; });
    const RowStatistics row = row_statistics(logits);
    const auto k = static_cast<std::int64_t>(engine() % 45);
    std::vector<TokenLogprob> top;
    top_logprobs(logits, row, k, top);
    ASSERT_EQ(top.size(), std::min(static_cast<std::size_t>(k), logits.size()));
    for (std::size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(top[i].id, order[i]);
      EXPECT_EQ(top[i].logprob, logprob_of(logits, row, order[i]));
    }
  }
  std::vector<TokenLogprob> none(3);
  top_logprobs(kLogits, row_statistics(kLogits), 0, none);
  EXPECT_TRUE(none.empty());
  EXPECT_NEAR(logprob_of(std::vector<float>{0, 0, 0, 0}, row_statistics(std::vector<float>{0, 0, 0, 0}), 2),
              -std::log(4.0F), 1e-6);
}

}  // namespace
}  // namespace tpinfer
