#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"
#include "matmul_support.hpp"

namespace tpinfer {
namespace {

/// Leaves of odd and even lengths that divide `cols`.
std::vector<std::int64_t> odd_leaves(std::int64_t cols) {
  std::vector<std::int64_t> ends;
  std::int64_t end = 0;
  for (std::int64_t step = 1; end < cols; step = step * 2 + 1) ends.push_back(end = std::min(cols, end + step));
  return ends;
}

/// Bounds on the difference of two float32 sums of the same products: each of the 2 K + 2 roundings of either (bias and
/// the conversion of a total included) is at most 2^-24 of the sum of magnitudes.
std::vector<double> tolerances(const Values& x, const Values& w) {
  std::vector<double> bounds;
  for (std::int64_t row = 0; row < x.rows; ++row)
    for (std::int64_t out = 0; out < w.rows; ++out) {
      double magnitude = 2.0;  // bias
      for (std::int64_t k = 0; k < x.cols; ++k)
        magnitude += std::abs(static_cast<double>(x.at(row, k)) * static_cast<double>(w.at(out, k)));
      bounds.push_back(2.0 * static_cast<double>(x.cols + 1) * magnitude * 0x1p-24);
    }
  return bounds;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& expected, const std::vector<double>& bounds,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])) <= bounds[i]))
      FAIL() << what << " output " << i << ": " << got[i] << " instead of " << expected[i] << " within " << bounds[i];
}

std::vector<float> as_floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

TEST(KernelSets, AgreeWithScalarOverOddShapes) {
  for (const DType dtype : kWeightTypes)
    for (const std::int64_t cols : {2, 3, 5, 31, 64, 100, 352, 1408})
      for (const std::int64_t outs : {1, 3, 31, 32, 33, 100}) {
        const DType stored = kWeightTypes[static_cast<std::size_t>(cols + outs) % 3];
        const Values w(numbers(outs * cols, 7, 1.0F), outs, cols, stored);
        const CpuMatrix plain = pack(w, dtype);
        const CpuMatrix leaves = pack(w, dtype, odd_leaves(cols));
        const std::vector<float> bias = numbers(outs, 99, 1.0F);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 33}) {
          if (cols >= 352 && rows > 9 && rows % 4 != 1) continue;  // large and odd enough already
          Values x(numbers(rows * cols, 1000, 2.0F), rows, cols, input_type(dtype));
          const auto y = multiply(KernelSet::scalar, plain, x.tensor(), bias.data());
          const auto partials = multiply_partial(KernelSet::scalar, leaves, x.tensor());
          const std::vector<double> bounds = tolerances(x, w);
          for (const KernelSet set : available_sets()) {
            const std::string what = "set " + std::to_string(static_cast<int>(set)) + " " +
                                     std::string(dtype_name(dtype)) + " [" + std::to_string(rows) + ", " +
                                     std::to_string(cols) + "] to " + std::to_string(outs);
            expect_close(multiply(set, plain, x.tensor(), bias.data()), y, bounds, what);
            expect_close(as_floats(multiply_partial(set, leaves, x.tensor())), as_floats(partials), bounds, what);
          }
        }
      }
}

/// float32 products of bfloat16 numbers are exact, so a fused multiply-add is the product and the sum of the
/// definition.
TEST(KernelSets, FusedBFloat16IsBitwiseTheDefinition) {
  const Values w(numbers(100 * 352, 7, 1e-3F), 100, 352, DType::bfloat16);  // small: the grid rounds their sums
  const CpuMatrix matrix = pack(w, DType::bfloat16, odd_leaves(352));
  Values x(numbers(37 * 352, 1000, 2.0F), 37, 352, DType::bfloat16);
  for (const KernelSet set : available_sets()) {
    if (set == KernelSet::avx512_bf16) continue;  // its dot product rounds otherwise
    EXPECT_TRUE(
        same_bits(multiply_partial(set, matrix, x.tensor()), multiply_partial(KernelSet::scalar, matrix, x.tensor())));
  }
}

class Independence : public testing::TestWithParam<DType> {};

TEST_P(Independence, ARowHasTheSameBitsAloneAndAmongOthersOnAnyThreads) {
  const DType dtype = GetParam();
  constexpr std::int64_t kCount = 137;                   // more than a block of rows
  for (const std::int64_t cols : {64, 177, 1100, 4500})  // the last is more than a chunk of channels
    for (const std::int64_t outs : {32, 100, 257}) {
      if (cols * outs > 300000) continue;
      const Values w(numbers(outs * cols, 7, 1.0F), outs, cols, DType::float32);
      const CpuMatrix plain = pack(w, dtype);
      const CpuMatrix leaves = pack(w, dtype, odd_leaves(cols));
      Values x(numbers(kCount * cols, 1000, 2.0F), kCount, cols, input_type(dtype));
      const std::vector<float> bias = numbers(outs, 99, 1.0F);
      for (const KernelSet set : available_sets()) {
        if (set == KernelSet::scalar && outs * cols > 20000) continue;  // slow, and without tiles
        SCOPED_TRACE("set " + std::to_string(static_cast<int>(set)) + " cols " + std::to_string(cols) + " outs " +
                     std::to_string(outs));
        const auto y = multiply(set, plain, x.tensor(), bias.data());
        const auto partials = multiply_partial(set, leaves, x.tensor());
        for (const int threads : {2, 3}) {
          EXPECT_TRUE(same_bits(multiply(set, plain, x.tensor(), bias.data(), threads), y)) << threads;
          EXPECT_TRUE(same_bits(multiply_partial(set, leaves, x.tensor(), threads), partials)) << threads;
        }
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 37})
          for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1}, kCount - rows}) {
            EXPECT_TRUE(same_bits(multiply(set, plain, x.tensor(first, rows), bias.data(), rows % 2 ? 1 : 2),
                                  rows_of(y, first, rows, outs)))
                << rows << " rows from " << first;
            EXPECT_TRUE(same_bits(multiply_partial(set, leaves, x.tensor(first, rows), rows % 2 ? 2 : 1),
                                  rows_of(partials, first, rows, outs)))
                << rows << " rows from " << first;
          }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Independence, testing::ValuesIn(kWeightTypes),
                         [](const auto& param) { return std::string(dtype_name(param.param)); });

TEST(KernelSets, NanAndInfinityPassThroughAndStayInTheirRow) {
  constexpr std::int64_t kCols = 45;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : kWeightTypes) {
    const Values w(numbers(40 * kCols, 7, 1.0F), 40, kCols, dtype);
    const CpuMatrix plain = pack(w, dtype);
    // The channel after an odd leaf is not finite: the zero that fills up the leaf must not meet it.
    const CpuMatrix leaves = pack(w, dtype, {7, 8, kCols});
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      std::vector<float> values = numbers(3 * kCols, 1000, 2.0F);
      values[static_cast<std::size_t>(kCols) + 7] = bad;
      Values x(values, 3, kCols, input_type(dtype));
      Values only(rows_of(values, 1, 1, kCols), 1, kCols, input_type(dtype));
      for (const KernelSet set : available_sets()) {
        const auto y = multiply(set, plain, x.tensor());
        const auto partials = multiply_partial(set, leaves, x.tensor());
        for (std::size_t i = 0; i < y.size(); ++i) {
          const bool row = i / 40 == 1;
          const float weight = w.at(static_cast<std::int64_t>(i % 40), 7);
          const float expected = row ? bad * weight : 0.0F;
          EXPECT_EQ(std::isfinite(y[i]), !row);
          EXPECT_EQ(std::isfinite(partials[i]), !row);
          if (row && !std::isnan(bad)) {
            EXPECT_EQ(y[i], expected) << static_cast<int>(set);
            EXPECT_EQ(partials[i], static_cast<double>(expected));
          }
        }
      }
    }
    const CpuMatrix first_leaf = pack(Values(numbers(40 * 7, 7, 1.0F), 40, 7, dtype), dtype);
    std::vector<float> memory = numbers(8, 3, 1.0F);
    memory[7] = kInfinity;  // after the end of x
    Values x(memory, 1, 8, input_type(dtype));
    for (const KernelSet set : available_sets())
      for (const float value : multiply(set, first_leaf, Tensor{x.bytes.data(), x.dtype, 1, 7}))
        EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(KernelSets, EmptyMatrices) {
  const std::vector<float> bias = numbers(5, 1, 1.0F);
  for (const KernelSet set : available_sets())
    for (const DType dtype : kWeightTypes) {
      const CpuMatrix no_cols({.rows = 5, .cols = 0, .dtype = dtype});
      const CpuMatrix no_rows({.rows = 0, .cols = 7, .dtype = dtype, .leaf_ends = {3, 3, 7}});
      EXPECT_EQ(no_cols.bytes(), 0U);
      Values nothing({}, 3, 0, input_type(dtype));
      EXPECT_EQ(multiply(set, no_cols, nothing.tensor()), std::vector<float>(15, 0.0F));
      EXPECT_EQ(rows_of(multiply(set, no_cols, nothing.tensor(), bias.data()), 2, 1, 5), bias);
      EXPECT_EQ(multiply_partial(set, no_cols, nothing.tensor()), std::vector<double>(15, 0.0));
      Values x(numbers(21, 1, 1.0F), 3, 7, input_type(dtype));
      EXPECT_TRUE(multiply(set, no_rows, x.tensor()).empty());
      EXPECT_TRUE(multiply_partial(set, no_rows, x.tensor()).empty());
      EXPECT_TRUE(multiply(set, no_cols, nothing.tensor(0, 0)).empty());
    }
}

TEST(KernelSets, RefuseWhatDoesNotMatch) {
  const CpuMatrix w({.rows = 5, .cols = 4, .dtype = DType::bfloat16});
  Values wrong_type(numbers(8, 1, 1.0F), 2, 4, DType::float32);
  Values wrong_cols(numbers(6, 1, 1.0F), 2, 3, DType::bfloat16);
  EXPECT_THROW(multiply(KernelSet::scalar, w, wrong_type.tensor()), Error);
  EXPECT_THROW(multiply_partial(KernelSet::scalar, w, wrong_cols.tensor()), Error);
  const CpuMatrix table({.rows = 5, .cols = 3, .dtype = DType::bfloat16, .lookup_only = true});
  EXPECT_THROW(multiply(KernelSet::scalar, table, wrong_cols.tensor()), Error);
}

}  // namespace
}  // namespace tpinfer
