#include <gtest/gtest.h>

#include <numeric>

#include "matmul_support.hpp"

// Row-parallel products give the same bits on any number of ranks, in any order of the ranks, for rows together and
// alone, on any number of threads.

namespace tpinfer {
namespace {

constexpr std::int64_t kRows = 5;

struct Case {
  std::int64_t width;
  std::int64_t hidden;
  std::uint64_t hash;  ///< FNV-1a of the float32 result of the numpy reference on the same numbers, float32 weights
};

constexpr Case kCases[] = {
    {176, 48, 0xd28a7039017549f7ULL}, {352, 40, 0x7967a65e19234813ULL}, {1408, 24, 0xa9fdf5283d3d1b4dULL}};

std::uint64_t fnv(const std::vector<float>& values) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const float value : values) {
    unsigned char bytes[4];
    std::memcpy(bytes, &value, 4);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
  }
  return hash;
}

Values inputs(const Case& c, DType dtype) { return {numbers(kRows * c.width, 0, 3.0F), kRows, c.width, dtype}; }
Values weights(const Case& c) {
  return {numbers(c.hidden * c.width, 1 << 20, 1.0F), c.hidden, c.width, DType::float32};
}

/// Partial sums of each of `ranks` ranks, each with its own columns and leaves.
std::vector<std::vector<double>> rank_partials(KernelSet set, const Case& c, DType dtype, int ranks, Values& x,
                                               int threads) {
  const Values w = weights(c);
  const std::vector<std::int64_t> cuts = channel_cuts(c.width, ranks);
  std::vector<std::vector<double>> partials;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
    const std::int64_t begin = cuts[r];
    const std::int64_t end = cuts[r + 1];
    std::vector<std::int64_t> ends;
    for (const std::int64_t leaf : channel_leaf_ends(c.width))
      if (leaf > begin && leaf <= end) ends.push_back(leaf - begin);
    CpuMatrix matrix({.rows = c.hidden, .cols = end - begin, .dtype = dtype, .leaf_ends = ends});
    TestThreads team(threads);
    matrix.load(0, 0, w.stored(begin, end), team);
    std::vector<float> own;
    for (std::int64_t i = 0; i < x.rows; ++i)
      for (std::int64_t k = begin; k < end; ++k) own.push_back(x.at(i, k));
    Values slice(own, x.rows, end - begin, x.dtype);
    partials.push_back(multiply_partial(set, matrix, slice.tensor(), threads));
  }
  return partials;
}

std::vector<float> add_ranks(const std::vector<std::vector<double>>& partials, const std::vector<std::size_t>& order) {
  std::vector<float> sums(partials[0].size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    double total = 0.0;
    for (const std::size_t r : order) total += partials[r][i];
    sums[i] = static_cast<float>(total);
  }
  return sums;
}

TEST(Exactness, LeavesAreTheCutPointsOfAllReproducibleRankCounts) {
  EXPECT_EQ(channel_leaf_ends(1408),
            (std::vector<std::int64_t>{176, 240, 352, 480, 528, 704, 720, 880, 944, 960, 1056, 1184, 1232, 1408}));
  EXPECT_EQ(channel_leaf_ends(176),
            (std::vector<std::int64_t>{24, 32, 44, 48, 60, 64, 72, 88, 92, 96, 116, 120, 132, 136, 148, 156, 176}));
}

TEST(Exactness, ScalarSetIsTheNumpyReference) {
  for (const Case& c : kCases) {
    Values x = inputs(c, DType::float32);
    EXPECT_EQ(fnv(add_ranks(rank_partials(KernelSet::scalar, c, DType::float32, 1, x, 1), {0})), c.hash) << c.width;
  }
}

TEST(Exactness, OneResultForAnyRanksOrderRowsAndThreads) {
  for (const KernelSet set : available_sets())
    for (const DType dtype : kWeightTypes)
      for (const Case& c : kCases) {
        Values x = inputs(c, input_type(dtype));
        const std::vector<float> expected = add_ranks(rank_partials(set, c, dtype, 1, x, 1), {0});
        std::uint64_t random = 1;
        for (const int ranks : {1, 2, 3, 4, 6, 8}) {
          const auto partials = rank_partials(set, c, dtype, ranks, x, ranks % 3 + 1);
          std::vector<std::size_t> order(partials.size());
          std::iota(order.begin(), order.end(), 0);
          for (int shuffle = 0; shuffle < 4; ++shuffle) {
            EXPECT_TRUE(same_bits(add_ranks(partials, order), expected))
                << "set " << static_cast<int>(set) << " " << dtype_name(dtype) << " width " << c.width << " ranks "
                << ranks << " order " << shuffle;
            if (shuffle == 0) std::reverse(order.begin(), order.end());
            for (std::size_t i = order.size() - 1; shuffle > 0 && i > 0; --i)
              std::swap(order[i], order[(random = random * 6364136223846793005ULL + 1) % (i + 1)]);
          }
        }
        for (std::int64_t row = 0; row < kRows; ++row) {
          std::vector<float> values;
          for (std::int64_t k = 0; k < c.width; ++k) values.push_back(x.at(row, k));
          Values alone(values, 1, c.width, x.dtype);
          EXPECT_TRUE(same_bits(add_ranks(rank_partials(set, c, dtype, 3, alone, 1), {2, 0, 1}),
                                rows_of(expected, row, 1, c.hidden)));
        }
      }
}

/// Magnitudes that differ so much that sums in float64 would round: only the grid makes their order irrelevant.
TEST(Exactness, SumsOfAnyMagnitudeAreExactMultiplesOfTheGrid) {
  const Case c{1408, 24, 0};
  for (const KernelSet set : available_sets())
    for (const DType dtype : kWeightTypes) {
      std::vector<float> values = numbers(kRows * c.width, 0, 1.0F);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = std::ldexp(values[i], static_cast<int>(i % static_cast<std::size_t>(c.width) / 64 * 7 % 36) - 24);
      Values x(values, kRows, c.width, input_type(dtype));
      const std::vector<double> expected = rank_partials(set, c, dtype, 1, x, 1)[0];
      for (const double total : expected) EXPECT_EQ(std::ldexp(total, 28), std::nearbyint(std::ldexp(total, 28)));
      for (const int ranks : {2, 3, 8}) {
        const auto partials = rank_partials(set, c, dtype, ranks, x, 1);
        std::vector<double> forward(expected.size());
        std::vector<double> backward(expected.size());
        for (std::size_t r = 0; r < partials.size(); ++r)
          for (std::size_t i = 0; i < expected.size(); ++i) {
            forward[i] += partials[r][i];
            backward[i] += partials[partials.size() - 1 - r][i];
          }
        EXPECT_TRUE(same_bits(forward, expected)) << "set " << static_cast<int>(set) << " ranks " << ranks;
        EXPECT_TRUE(same_bits(backward, expected)) << "set " << static_cast<int>(set) << " ranks " << ranks;
      }
    }
}

TEST(Exactness, CloseToFloat64) {
  for (const KernelSet set : available_sets())
    for (const Case& c : kCases) {
      Values x = inputs(c, DType::float32);
      const Values w = weights(c);
      const std::vector<float> got = add_ranks(rank_partials(set, c, DType::float32, 4, x, 1), {0, 1, 2, 3});
      double worst = 0;
      double largest = 0;
      for (std::int64_t i = 0; i < kRows; ++i)
        for (std::int64_t o = 0; o < c.hidden; ++o) {
          double exact = 0;
          for (std::int64_t k = 0; k < c.width; ++k)
            exact += static_cast<double>(x.at(i, k)) * static_cast<double>(w.at(o, k));
          largest = std::max(largest, std::abs(exact));
          worst =
              std::max(worst, std::abs(exact - static_cast<double>(got[static_cast<std::size_t>(i * c.hidden + o)])));
        }
      EXPECT_LT(worst / largest, 1e-6) << "set " << static_cast<int>(set) << " width " << c.width;
    }
}

}  // namespace
}  // namespace tpinfer
