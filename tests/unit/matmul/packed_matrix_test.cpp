#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"
#include "matmul_support.hpp"

namespace tpinfer {
namespace {

float rounded(float value, DType dtype) {
  if (dtype == DType::float16) return float16_to_float(float_to_float16(value));
  if (dtype == DType::bfloat16) return bfloat16_to_float(float_to_bfloat16(value));
  return value;
}

/// The matrix as the embedding reads it: independent of the products.
std::vector<double> contents(const CpuMatrix& matrix) {
  std::vector<double> all(static_cast<std::size_t>(matrix.spec().rows * matrix.spec().cols));
  for (std::int64_t r = 0; r < matrix.spec().rows; ++r) matrix.copy_row(r, all.data() + r * matrix.spec().cols);
  return all;
}

struct Layout {
  const char* name;
  bool lookup_only;
  std::vector<std::int64_t> leaf_ends;
};
const Layout kLayouts[] = {
    {"one leaf", false, {}}, {"odd leaves", false, {1, 4, 4, 39, 40, 75, 150, 151}}, {"lookup", true, {}}};
constexpr std::int64_t kRows = 77;
constexpr std::int64_t kCols = 151;

CpuMatrix empty_matrix(const Layout& layout, DType dtype) {
  return CpuMatrix(
      {.rows = kRows, .cols = kCols, .dtype = dtype, .leaf_ends = layout.leaf_ends, .lookup_only = layout.lookup_only});
}

TEST(PackedMatrix, LoadsPiecesOfAnySizeStrideAndType) {
  const std::int64_t row_cuts[] = {0, 1, 30, 64, 71, kRows};
  const std::int64_t col_cuts[] = {0, 3, 8, 77, 78, 150, kCols};
  const std::vector<float> values = numbers(kRows * kCols, 5, 1.0F);
  for (const Layout& layout : kLayouts)
    for (const DType dtype : kWeightTypes)
      for (const DType stored : kWeightTypes)
        for (const bool transposed : {false, true}) {
          std::vector<float> order = values;
          for (std::int64_t i = 0; transposed && i < kRows * kCols; ++i)
            order[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(i % kRows * kCols + i / kRows)];
          // One byte further: files are not aligned.
          Values source(order, transposed ? kCols : kRows, transposed ? kRows : kCols, stored);
          std::vector<std::byte> odd(source.bytes.size() + 1);
          std::copy(source.bytes.begin(), source.bytes.end(), odd.begin() + 1);
          const auto size = static_cast<std::int64_t>(dtype_size(stored));
          const std::int64_t row_stride = transposed ? size : kCols * size;
          const std::int64_t col_stride = transposed ? kRows * size : size;
          CpuMatrix matrix = empty_matrix(layout, dtype);
          TestThreads team(2);
          for (std::size_t i = 0; i + 1 < std::size(row_cuts); ++i)
            for (std::size_t j = 0; j + 1 < std::size(col_cuts); ++j)
              matrix.load(row_cuts[i], col_cuts[j],
                          {odd.data() + 1 + row_cuts[i] * row_stride + col_cuts[j] * col_stride, stored,
                           row_cuts[i + 1] - row_cuts[i], col_cuts[j + 1] - col_cuts[j], row_stride, col_stride},
                          team);
          const std::vector<double> got = contents(matrix);
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got[i], static_cast<double>(rounded(rounded(values[i], stored), dtype)))
                << layout.name << " " << dtype_name(stored) << " to " << dtype_name(dtype) << " transposed "
                << transposed << " element " << i;
        }
}

TEST(PackedMatrix, LoadsAWholeMatrixAsPieces) {
  const std::vector<float> values = numbers(kRows * kCols, 5, 1.0F);
  for (const Layout& layout : kLayouts)
    for (const DType dtype : kWeightTypes) {
      CpuMatrix matrix = empty_matrix(layout, dtype);
      TestThreads team(3);
      matrix.load(0, 0, Values(values, kRows, kCols, dtype).stored(), team);
      const std::vector<double> got = contents(matrix);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], static_cast<double>(rounded(values[i], dtype))) << layout.name << " element " << i;
    }
}

TEST(PackedMatrix, SpecialValuesSurviveConversion) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{kInfinity,   -kInfinity,  65520.0F,
                                  65519.0F,    1e-8F,       -1e-8F,
                                  1.00390625F, 1.01171875F, std::numeric_limits<float>::quiet_NaN(),
                                  6e-8F,       -0.0F,       3e38F,
                                  1e-40F,      2049.0F,     2051.0F,
                                  -65504.0F};
  const auto cols = static_cast<std::int64_t>(values.size());
  for (const DType stored : kWeightTypes)
    for (const DType dtype : kWeightTypes) {
      const Values w(values, 1, cols, stored);
      const std::vector<double> got = contents(pack(w, dtype));
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto expected = static_cast<double>(rounded(w.at(0, c), dtype));
        const double value = got[static_cast<std::size_t>(c)];
        if (std::isnan(expected))
          EXPECT_TRUE(std::isnan(value));
        else
          EXPECT_EQ(value, expected) << dtype_name(stored) << " to " << dtype_name(dtype) << " column " << c;
      }
    }
}

TEST(PackedMatrix, CountsItsPadding) {
  // 100 rows are 4 panels; leaves of 3 and 4 channels take 4 and 4 as pairs.
  const CpuMatrix pairs({.rows = 100, .cols = 7, .dtype = DType::bfloat16, .leaf_ends = {3, 7}});
  EXPECT_EQ(pairs.panel_bytes(), 8 * 32 * 2);
  EXPECT_EQ(pairs.bytes(), 4096U);  // a page
  const CpuMatrix large({.rows = 4096, .cols = 1000, .dtype = DType::float16});
  EXPECT_EQ(large.bytes(), (4096U * 1000U * 2U + 4095U) / 4096U * 4096U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.panel(0, 0)) % (2U << 20), 0U);
}

TEST(PackedMatrix, RefusesWhatDoesNotFit) {
  EXPECT_THROW(CpuMatrix({.rows = 4, .cols = 4, .dtype = DType::int8}), Error);
  EXPECT_THROW(CpuMatrix({.rows = 4, .cols = 4, .leaf_ends = {3}}), Error);
  EXPECT_THROW(CpuMatrix({.rows = 4, .cols = 4, .leaf_ends = {3, 2, 4}}), Error);
  EXPECT_THROW(CpuMatrix({.rows = 4, .cols = 4, .leaf_ends = {5}}), Error);
  CpuMatrix matrix({.rows = 4, .cols = 4});
  const Values w(numbers(16, 1, 1.0F), 4, 4, DType::float32);
  TestThreads team(1);
  EXPECT_THROW(matrix.load(1, 0, w.stored(), team), Error);
  EXPECT_THROW(matrix.load(0, 1, w.stored(), team), Error);
  EXPECT_THROW(matrix.load(-1, 0, w.stored(), team), Error);
}

TEST(Embedding, TakesTheRowsItHas) {
  constexpr std::int64_t kFirst = 50;
  std::vector<float> values = numbers(kRows * kCols, 5, 1.0F);
  values[3] = -0.0F;
  const std::vector<std::int32_t> tokens{50, 0, 126, 127, 50, 83, -1};
  StepBatch batch;
  batch.rows = static_cast<std::int64_t>(tokens.size());
  batch.tokens = tokens.data();
  for (const Layout& layout : kLayouts)
    for (const DType dtype : kWeightTypes) {
      CpuMatrix table = empty_matrix(layout, dtype);
      TestThreads team(2);
      table.load(0, 0, Values(values, kRows, kCols, DType::float32).stored(), team);
      std::vector<double> partials(tokens.size() * kCols, -77.0);
      cpu_embed(team, table, kFirst, batch, {partials.data(), DType::float64, batch.rows, kCols});
      std::vector<float> floats(partials.size(), -77.0F);
      cpu_embed(team, table, kFirst, batch, {floats.data(), DType::float32, batch.rows, kCols});
      for (std::size_t i = 0; i < partials.size(); ++i) {
        const std::int64_t row = tokens[i / kCols] - kFirst;
        const double expected =
            row < 0 || row >= kRows
                ? 0.0
                : static_cast<double>(rounded(values[static_cast<std::size_t>(row) * kCols + i % kCols], dtype));
        ASSERT_EQ(partials[i], expected) << layout.name << " element " << i;
        ASSERT_EQ(static_cast<double>(floats[i]), expected) << layout.name << " element " << i;
        ASSERT_EQ(std::signbit(partials[i]), expected < 0.0) << layout.name << " element " << i;
      }
    }
}

}  // namespace
}  // namespace tpinfer
