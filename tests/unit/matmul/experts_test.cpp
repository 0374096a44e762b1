#include "backend/cpu/experts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/kernels.hpp"
#include "core/error.hpp"
#include "matmul_support.hpp"

namespace tpinfer {
namespace {

struct Routed {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routed route(KernelSet set, std::vector<float> logits, const RoutingParams& params, int threads = 1) {
  const std::int64_t cols = params.experts + (params.shared ? 1 : 0);
  const std::int64_t rows = std::ssize(logits) / cols;
  const std::int64_t slots = params.per_token + (params.shared ? 1 : 0);
  Routed routed{std::vector<std::int32_t>(static_cast<std::size_t>(rows * slots), -5),
                std::vector<float>(static_cast<std::size_t>(rows * slots), -5.0F)};
  TestThreads team(threads);
  cpu_route(team, kernels_of(set).exponentials, {logits.data(), DType::float32, rows, cols}, params,
            {routed.experts.data(), routed.weights.data(), slots});
  return routed;
}

TEST(Route, SoftmaxOverAllThenTheBest) {
  constexpr std::int64_t kExperts = 9;
  constexpr std::int64_t kChosen = 4;
  constexpr std::int64_t kRows = 50;
  for (const KernelSet set : available_sets())
    for (const bool renormalise : {false, true})
      for (const bool shared : {false, true}) {
        const std::int64_t cols = kExperts + (shared ? 1 : 0);
        const std::int64_t slots = kChosen + (shared ? 1 : 0);
        const std::vector<float> logits = numbers(kRows * cols, 3, 2.0F);
        const RoutingParams params{
            .experts = kExperts, .per_token = kChosen, .renormalise = renormalise, .shared = shared};
        const Routed got = route(set, logits, params);
        for (std::int64_t row = 0; row < kRows; ++row) {
          const float* l = logits.data() + row * cols;
          std::vector<std::pair<double, std::int32_t>> order;
          double sum = 0;
          for (std::int32_t e = 0; e < kExperts; ++e) {
            order.emplace_back(-std::exp(static_cast<double>(l[e])), e);
            sum -= order.back().first;
          }
          std::ranges::sort(order);
          double of_chosen = 0;
          for (std::size_t k = 0; k < kChosen; ++k) of_chosen -= order[k].first;
          for (std::size_t k = 0; k < kChosen; ++k) {
            const auto at = static_cast<std::size_t>(row * slots) + k;
            EXPECT_EQ(got.experts[at], order[k].second) << row;
            EXPECT_NEAR(static_cast<double>(got.weights[at]), -order[k].first / (renormalise ? of_chosen : sum), 1e-6);
          }
          if (!shared) continue;  // the last slot: its own sigmoid, whatever the routed ones are scaled to
          const auto last = static_cast<std::size_t>(row * slots + kChosen);
          EXPECT_EQ(got.experts[last], kExperts);
          EXPECT_NEAR(static_cast<double>(got.weights[last]), 1 / (1 + std::exp(-static_cast<double>(l[kExperts]))),
                      1e-6);
        }
        for (const int threads : {2, 3})
          EXPECT_TRUE(same_bits(route(set, logits, params, threads).weights, got.weights));
        for (std::int64_t row : {0, 17, 49}) {
          const Routed alone = route(set, rows_of(logits, row, 1, cols), params);
          EXPECT_TRUE(same_bits(alone.weights, rows_of(got.weights, row, 1, slots)));
          EXPECT_EQ(alone.experts, rows_of(got.experts, row, 1, slots));
        }
      }
}

TEST(Route, TiesGoToTheLowestNumber) {
  for (const KernelSet set : available_sets()) {
    EXPECT_EQ(route(set, {1, 3, 3, 1, 3, 0}, {.experts = 6, .per_token = 4}).experts,
              (std::vector<std::int32_t>{1, 2, 4, 0}));
    EXPECT_EQ(route(set, {0, 0, 0}, {.experts = 3, .per_token = 3}).experts, (std::vector<std::int32_t>{0, 1, 2}));
  }
}

TEST(Route, LargeLogitsAreNoOverflow) {
  for (const KernelSet set : available_sets()) {
    const Routed got = route(set, {1e6F, -1e6F, 999999.0F, 80.0F},
                             {.experts = 3, .per_token = 2, .renormalise = true, .shared = true});
    EXPECT_EQ(got.experts, (std::vector<std::int32_t>{0, 2, 3}));
    EXPECT_NEAR(got.weights[0], 1 / (1 + std::exp(-1.0)), 1e-6);
    EXPECT_NEAR(got.weights[0] + got.weights[1], 1.0F, 1e-6F);
    EXPECT_EQ(got.weights[2], 1.0F);
    const Routed closed = route(set, {0, 0, -1000.0F}, {.experts = 2, .per_token = 1, .shared = true});
    EXPECT_EQ(closed.weights[1], 0.0F);
    for (const std::int32_t e :
         route(set, {std::numeric_limits<float>::quiet_NaN(), 1, 2}, {.experts = 3, .per_token = 2}).experts)
      EXPECT_TRUE(e >= 0 && e < 3);
  }
}

TEST(Route, WrongShapesAreInternalErrors) {
  std::vector<float> logits(8);
  std::vector<std::int32_t> experts(8);
  TestThreads team(1);
  const Tensor four{logits.data(), DType::float32, 2, 4};
  EXPECT_THROW(cpu_route(team, kernels_of(KernelSet::scalar).exponentials, four, {.experts = 5, .per_token = 2},
                         {experts.data(), logits.data(), 2}),
               Error);
  EXPECT_THROW(cpu_route(team, kernels_of(KernelSet::scalar).exponentials, four, {.experts = 4, .per_token = 2},
                         {experts.data(), logits.data(), 3}),
               Error);
}

TEST(ExpertGroups, EntriesByExpertInOrderOfRows) {
  std::vector<std::int32_t> experts{2, 0, 4, /**/ 0, 2, 4, /**/ 3, 2, 4};
  std::vector<float> weights{0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.6F, 0.7F, 0.8F, 0.9F};
  ExpertGroups groups;
  for (int again = 0; again < 2; ++again) {  // reused from step to step
    groups.group({experts.data(), weights.data(), 3}, 3, 5);
    EXPECT_EQ(groups.begin, (std::vector<std::int64_t>{0, 2, 2, 5, 6, 9}));
    EXPECT_EQ(groups.rows, (std::vector<std::int32_t>{0, 1, 0, 1, 2, 2, 0, 1, 2}));
    EXPECT_EQ(groups.weights, (std::vector<float>{0.2F, 0.4F, 0.1F, 0.5F, 0.8F, 0.7F, 0.3F, 0.6F, 0.9F}));
  }
  groups.group({experts.data(), weights.data(), 3}, 0, 5);
  EXPECT_EQ(groups.begin, std::vector<std::int64_t>(6, 0));
  EXPECT_TRUE(groups.rows.empty());
}

}  // namespace
}  // namespace tpinfer
