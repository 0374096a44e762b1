// Row-parallel products whose rows are scaled, go to rows of their own and are added to what is there: the experts of a
// mixture.
#include <gtest/gtest.h>

#include <numeric>

#include "core/exact_sum.hpp"
#include "matmul_support.hpp"

namespace tpinfer {
namespace {

constexpr double kUntouched = -77.0;

/// Whole numbers that every weight type holds, so that the sum of a leaf is exact in any order.
std::vector<float> whole_numbers(std::int64_t count, std::uint64_t first) {
  std::vector<float> values = numbers(count, first, 6.0F);
  for (float& v : values) v = std::nearbyint(v);
  return values;
}

struct Shape {
  std::int64_t outs;
  std::int64_t cols;
  std::vector<std::int64_t> leaf_ends;
};
const Shape kShapes[] = {{48, 37, {1, 4, 11, 37}}, {7, 12, {5, 12}}, {64, 20, {20}}, {33, 64, {16, 17, 40, 64}}};
constexpr std::int64_t kRowCounts[] = {1, 2, 5, 13, 40};

/// One expert: its product, the rows that it works on and their weights.
struct Expert {
  Expert(const Shape& s, DType dtype, std::int64_t rows, std::uint64_t seed)
      : shape(s),
        weights(whole_numbers(s.outs * s.cols, seed), s.outs, s.cols, DType::float32),
        inputs(whole_numbers(rows * s.cols, seed + 100000), rows, s.cols, input_type(dtype)),
        matrix(pack(weights, dtype, s.leaf_ends)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      scales.push_back(std::abs(number(seed + 7 + static_cast<std::uint64_t>(r))) / 3.0F);
      to.push_back(static_cast<std::int32_t>((2 * (rows - r) + 1) % (2 * rows + 3)));  // all different, backwards
    }
  }

  /// What it adds to one output: every leaf's sum times the weight in float32, then rounded to the grid.
  double adds(std::int64_t row, std::int64_t out, bool scaled) const {
    double total = 0;
    std::int64_t k = 0;
    for (const std::int64_t end : shape.leaf_ends) {
      float sum = 0;
      for (; k < end; ++k) sum += inputs.at(row, k) * weights.at(out, k);
      total += round_to_grid(scaled ? sum * scales[static_cast<std::size_t>(row)] : sum);
    }
    return total;
  }
  void run(KernelSet set, std::vector<double>& totals, bool scaled, bool scattered, bool accumulate, int threads) {
    TestThreads team(threads);
    cpu_matmul_partial(set, team, matrix, inputs.tensor(),
                       {.totals = totals.data(),
                        .scales = scaled ? scales.data() : nullptr,
                        .rows = scattered ? to.data() : nullptr,
                        .accumulate = accumulate});
  }

  Shape shape;
  Values weights;
  Values inputs;
  CpuMatrix matrix;
  std::vector<float> scales;
  std::vector<std::int32_t> to;
};

class PartialSumsOf : public testing::TestWithParam<DType> {};

TEST_P(PartialSumsOf, ScaledScatteredAndAddedRowsAreTheDefinition) {
  for (const KernelSet set : available_sets())
    for (const Shape& shape : kShapes)
      for (const std::int64_t rows : kRowCounts) {
        Expert expert(shape, GetParam(), rows, 11);
        for (int way = 0; way < 8; ++way) {
          const bool scaled = way & 1;
          const bool scattered = way & 2;
          const bool accumulate = way & 4;
          const std::int64_t all = 2 * rows + 3;
          std::vector<double> totals(static_cast<std::size_t>(all * shape.outs), kUntouched);
          std::vector<double> expected = totals;
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t o = 0; o < shape.outs; ++o) {
              const std::int64_t to = scattered ? expert.to[static_cast<std::size_t>(r)] : r;
              double& total = expected[static_cast<std::size_t>(to * shape.outs + o)];
              total = (accumulate ? total : 0.0) + expert.adds(r, o, scaled);
            }
          expert.run(set, totals, scaled, scattered, accumulate, way % 3 + 1);
          ASSERT_TRUE(same_bits(totals, expected))
              << "set " << static_cast<int>(set) << " outs " << shape.outs << " rows " << rows << " way " << way;
        }
      }
}

/// Real numbers: the order of the experts must not be seen, nor the rows that others have.
TEST_P(PartialSumsOf, ExpertsMayComeInAnyOrder) {
  for (const KernelSet set : available_sets()) {
    const Shape& shape = kShapes[0];
    std::vector<Expert> experts;
    for (const std::uint64_t e : {0U, 1U, 2U, 3U}) {
      experts.emplace_back(shape, GetParam(), 9, 1000 * e);
      std::vector<float> real = numbers(9 * shape.cols, 31 * e, 1.7F);
      experts.back().inputs = Values(real, 9, shape.cols, input_type(GetParam()));
    }
    std::vector<std::size_t> order{0, 1, 2, 3};
    std::vector<double> first;
    do {
      std::vector<double> totals(static_cast<std::size_t>(21 * shape.outs), 0.0);
      for (const std::size_t e : order) experts[e].run(set, totals, true, true, true, 1);
      if (first.empty()) first = totals;
      for (const double total : totals)
        ASSERT_EQ(std::ldexp(total, 28), std::nearbyint(std::ldexp(total, 28))) << "off the grid: an order would show";
      ASSERT_TRUE(same_bits(totals, first)) << "set " << static_cast<int>(set);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PartialSumsOf, testing::ValuesIn(kWeightTypes),
                         [](const auto& param) { return std::string(dtype_name(param.param)); });

TEST(PartialSums, WithoutChannelsRowsAreZeroOrWhatTheyWere) {
  const CpuMatrix empty({.rows = 5, .cols = 0, .dtype = DType::float32});
  Values x(std::vector<float>{}, 2, 0, DType::float32);
  const std::int32_t to[] = {3, 1};
  for (const bool accumulate : {false, true}) {
    std::vector<double> totals(4 * 5, kUntouched);
    TestThreads team(1);
    cpu_matmul_partial(KernelSet::scalar, team, empty, x.tensor(),
                       {.totals = totals.data(), .rows = to, .accumulate = accumulate});
    for (std::size_t i = 0; i < totals.size(); ++i)
      EXPECT_EQ(totals[i], !accumulate && (i / 5 == 1 || i / 5 == 3) ? 0.0 : kUntouched);
  }
}

}  // namespace
}  // namespace tpinfer
