// Leaf sums below 2 are added as whole numbers of grid steps, larger ones in float64: nobody may see which way was
// taken.
#include <gtest/gtest.h>

#include <limits>

#include "core/exact_sum.hpp"
#include "matmul_support.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kOuts = 96;

/// Weights of which each leaf has one channel: its sum is the product of two chosen numbers, exact in float32.
struct OneChannelLeaves {
  OneChannelLeaves(std::vector<float> sums, std::int64_t rows) : leaves(std::ssize(sums)), values(std::move(sums)) {
    std::vector<float> weights;
    for (std::int64_t o = 0; o < kOuts; ++o)
      for (std::int64_t k = 0; k < leaves; ++k) weights.push_back(at(o, k));
    w = std::make_unique<Values>(weights, kOuts, leaves, DType::float32);
    std::vector<float> ones;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t k = 0; k < leaves; ++k) ones.push_back(sign(r, k));
    x = std::make_unique<Values>(ones, rows, leaves, DType::float32);
    std::vector<std::int64_t> ends;
    for (std::int64_t k = 1; k <= leaves; ++k) ends.push_back(k);
    matrix = std::make_unique<CpuMatrix>(pack(*w, DType::float32, ends));
  }
  /// The list, begun elsewhere for each output, so that large and small sums meet in one tile.
  float at(std::int64_t out, std::int64_t leaf) const {
    return values[static_cast<std::size_t>((leaf + out * out) % leaves)];
  }
  static float sign(std::int64_t row, std::int64_t leaf) { return (row + leaf) % 3 == 0 ? -1.0F : 1.0F; }
  double expected(std::int64_t row, std::int64_t out) const {
    double total = 0;
    for (std::int64_t k = 0; k < leaves; ++k) total += round_to_grid(sign(row, k) * at(out, k));
    return total;
  }

  std::int64_t leaves;
  std::vector<float> values;
  std::unique_ptr<Values> w, x;
  std::unique_ptr<CpuMatrix> matrix;
};

void expect_the_definition(const std::vector<float>& sums) {
  for (const std::int64_t rows : {1, 2, 12, 13, 30}) {
    const OneChannelLeaves product(sums, rows);
    for (const KernelSet set : available_sets()) {
      const auto got = multiply_partial(set, *product.matrix, product.x->tensor());
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t o = 0; o < kOuts; ++o) {
          const double value = got[static_cast<std::size_t>(r * kOuts + o)];
          const double wanted = product.expected(r, o);
          if (std::isnan(wanted))
            ASSERT_TRUE(std::isnan(value)) << "set " << static_cast<int>(set) << " row " << r << " output " << o;
          else
            ASSERT_EQ(value, wanted) << "set " << static_cast<int>(set) << " row " << r << " output " << o;
        }
    }
  }
}

const float kBelowTwo = std::nextafter(2.0F, 0.0F);

TEST(ExactCounts, FourOfTheLargestSmallSums) {
  expect_the_definition({kBelowTwo, kBelowTwo, kBelowTwo, kBelowTwo});
  expect_the_definition(std::vector<float>(17, kBelowTwo));
  expect_the_definition(std::vector<float>(9, -kBelowTwo));
}

TEST(ExactCounts, SmallAndLargeSumsInTurn) {
  expect_the_definition({0.75F, 2.0F, -1.25F, kBelowTwo, 3e5F, 1e-3F, -7.5F, 0.1F, 0.2F, 0.3F, -0.4F, 1.5F, 100.0F});
  expect_the_definition({2.0F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F});
  expect_the_definition({0.1F, 0.1F, 0.1F, 0.1F, 0.1F, -2.0F});
}

/// Halves of a grid step go to the even neighbour, whatever they are added to.
TEST(ExactCounts, TiesAndTinySums) {
  expect_the_definition({0x1p-29F, 0x3p-29F, 0x5p-29F, -0x1p-29F, -0x3p-29F, 0x1p-30F, 0x1.000002p-29F});
  expect_the_definition({0x1p-149F, -0x1p-126F, 0.0F, -0.0F, 0x1p-60F});
  expect_the_definition(numbers(16, 3, 0x1p-27F));
  expect_the_definition(numbers(16, 5, 0.9F));
}

TEST(ExactCounts, NanAndInfinityPassThrough) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  expect_the_definition({0.5F, kInfinity, 0.25F});
  expect_the_definition({0.5F, std::numeric_limits<float>::quiet_NaN(), 0.25F, 1.0F, 1.0F});
  expect_the_definition({kInfinity, 0.5F, 0.25F, 1.0F, -kInfinity, 3.0F});
}

}  // namespace
}  // namespace tpinfer
