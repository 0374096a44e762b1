#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels.hpp"
#include "kernel_sets.hpp"

namespace tpinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class Math : public testing::TestWithParam<KernelSet> {
 protected:
  const CpuKernels& kernels_ = kernels_of(GetParam());
};

/// Distance of `value` from `exact` in units of the last place of a float32 near it.
double ulps(float value, double exact) {
  const auto near = static_cast<float>(std::fabs(exact));
  const double unit = std::max(static_cast<double>(std::nextafter(near, kInfinity)) - static_cast<double>(near),
                               static_cast<double>(std::numeric_limits<float>::denorm_min()));
  return std::fabs(static_cast<double>(value) - exact) / unit;
}

TEST_P(Math, ExponentialIsWithinOneAndAHalfUlpOverTheWholeRange) {
  double worst = 0;
  std::vector<float> x;
  std::vector<float> y;
  for (std::uint32_t step = 0; step < 2'000'000; step += 1000) {
    x.clear();
    for (std::uint32_t i = step; i < step + 1000; ++i) x.push_back(-103.9F + static_cast<float>(i) * 9.62e-5F);
    y.resize(x.size());
    kernels_.exponentials(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      if (exact < 3.4e38) worst = std::max(worst, ulps(y[i], exact));
    }
  }
  EXPECT_LT(worst, 1.5);
  RecordProperty("worst_ulps", std::to_string(worst));
}

TEST_P(Math, ExponentialOfSmallNumbers) {
  std::vector<float> x;
  for (float v = 1.0F; v > 1e-38F; v *= 0.77F) x.insert(x.end(), {v, -v});
  std::vector<float> y(x.size());
  kernels_.exponentials(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_LT(ulps(y[i], std::exp(static_cast<double>(x[i]))), 1.5) << x[i];
}

TEST_P(Math, ExponentialOfSpecialValues) {
  const float x[] = {0.0F, -0.0F, -kInfinity, kInfinity, kNan, -1e30F, 1e30F, -104.0F, 89.0F, 88.7F, -1e-45F};
  float y[std::size(x)];
  kernels_.exponentials(x, y, std::size(x));
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_EQ(y[1], 1.0F);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(y[2]), 0U);
  EXPECT_EQ(y[3], kInfinity);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(y[5], 0.0F);
  EXPECT_EQ(y[6], kInfinity);
  EXPECT_EQ(y[7], 0.0F);
  EXPECT_EQ(y[8], kInfinity);
  EXPECT_TRUE(std::isfinite(y[9]));
  EXPECT_EQ(y[10], 1.0F);
}

TEST_P(Math, ErrorFunctionIsWithinTwoTenMillionths) {
  std::vector<float> x;
  for (float v = -6.0F; v < 6.0F; v += 1e-4F) x.push_back(v);
  x.insert(x.end(), {0.0F, kInfinity, -kInfinity, 1.0F, -1.0F, std::nextafter(1.0F, 0.0F)});
  std::vector<float> y(x.size());
  kernels_.error_functions(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(y[i], std::erf(static_cast<double>(x[i])), 2e-7) << x[i];
  kernels_.error_functions(&kNan, y.data(), 1);
  EXPECT_TRUE(std::isnan(y[0]));
}

INSTANTIATE_TEST_SUITE_P(Sets, Math, testing::ValuesIn(test::usable_sets()),
                         [](const auto& named) { return test::test_name(named.param); });

}  // namespace
}  // namespace tpinfer
