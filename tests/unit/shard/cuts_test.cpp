#include "shard/cuts.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/model_folder.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

using Cuts = std::vector<std::int64_t>;

// The literals of this file are what the numpy program of the numbers page prints (its functions channel_cuts,
// head_cuts and leaves).

TEST(Cuts, EvenPartsWithTheFirstOnesLonger) {
  EXPECT_EQ(even_cuts(10, 3), (Cuts{0, 4, 7, 10}));
  EXPECT_EQ(even_cuts(2, 4), (Cuts{0, 1, 2, 2, 2}));
  EXPECT_EQ(even_cuts(0, 2), (Cuts{0, 0, 0}));
  EXPECT_EQ(even_cuts(32003, 2), (Cuts{0, 16002, 32003}));
}

TEST(Cuts, ChannelUnits) {
  for (const auto& [width, unit] : {std::pair{1, 1}, {63, 1}, {64, 4}, {511, 4}, {512, 16}, {14336, 16}})
    EXPECT_EQ(channel_unit(width), unit) << width;
}

TEST(Cuts, ChannelsInWholeUnits) {
  EXPECT_EQ(channel_cuts(11008, 3), (Cuts{0, 3680, 7344, 11008}));
  EXPECT_EQ(channel_cuts(11008, 6), (Cuts{0, 1840, 3680, 5520, 7360, 9184, 11008}));
  EXPECT_EQ(channel_cuts(14336, 3), (Cuts{0, 4784, 9568, 14336}));
  EXPECT_EQ(channel_cuts(14336, 6), (Cuts{0, 2400, 4800, 7184, 9568, 11952, 14336}));
  EXPECT_EQ(channel_cuts(1408, 6), (Cuts{0, 240, 480, 720, 960, 1184, 1408}));
  EXPECT_EQ(channel_cuts(1408, 8), (Cuts{0, 176, 352, 528, 704, 880, 1056, 1232, 1408}));
  EXPECT_EQ(channel_cuts(100, 3), (Cuts{0, 36, 68, 100}));
  EXPECT_EQ(channel_cuts(20, 6), (Cuts{0, 4, 8, 11, 14, 17, 20}));
  EXPECT_EQ(channel_cuts(63, 4), (Cuts{0, 16, 32, 48, 63}));
  EXPECT_EQ(channel_cuts(516, 8), (Cuts{0, 80, 144, 208, 272, 336, 400, 464, 516}));  // the last unit is short
  EXPECT_EQ(channel_cuts(3, 5), (Cuts{0, 1, 2, 3, 3, 3}));                            // an empty slice is legal
}

TEST(Cuts, QueryHeadsByGroupAndThenInside) {
  EXPECT_EQ(query_head_cuts(28, 4, 3), (Cuts{0, 14, 21, 28}));
  EXPECT_EQ(query_head_cuts(28, 4, 5), (Cuts{0, 4, 7, 14, 21, 28}));
  EXPECT_EQ(query_head_cuts(28, 4, 6), (Cuts{0, 4, 7, 11, 14, 21, 28}));
  EXPECT_EQ(query_head_cuts(28, 4, 8), (Cuts{0, 4, 7, 11, 14, 18, 21, 25, 28}));
  EXPECT_EQ(query_head_cuts(12, 3, 8), (Cuts{0, 2, 3, 4, 6, 7, 8, 10, 12}));
  EXPECT_EQ(query_head_cuts(48, 1, 8), (Cuts{0, 6, 12, 18, 24, 30, 36, 42, 48}));
  EXPECT_EQ(query_head_cuts(40, 40, 7), (Cuts{0, 6, 12, 18, 24, 30, 35, 40}));
  EXPECT_EQ(query_head_cuts(6, 3, 4), (Cuts{0, 1, 2, 4, 6}));
}

TEST(Cuts, MoreRanksThanQueryHeadsAreRefused) {
  EXPECT_EQ(query_head_cuts(6, 3, 6).size(), 7U);
  const std::string text = test_files::complaint([] { query_head_cuts(6, 3, 7); }, ExitCode::does_not_fit);
  EXPECT_TRUE(test_files::mentions(text, {"7 ranks", "6 query heads", "at most 6"}));
}

Cuts leaf_ends(Cuts cuts) {
  EXPECT_EQ(cuts.front(), 0);
  cuts.erase(cuts.begin());
  return cuts;
}

TEST(Leaves, OfChannels) {
  EXPECT_EQ(leaf_ends(channel_leaf_cuts(1408)),
            (Cuts{176, 240, 352, 480, 528, 704, 720, 880, 944, 960, 1056, 1184, 1232, 1408}));
  EXPECT_EQ(leaf_ends(channel_leaf_cuts(5632)),
            (Cuts{704, 944, 1408, 1888, 2112, 2816, 2832, 3520, 3760, 3776, 4224, 4704, 4928, 5632}));
  EXPECT_EQ(leaf_ends(channel_leaf_cuts(11008)),
            (Cuts{1376, 1840, 2752, 3680, 4128, 5504, 5520, 6880, 7344, 7360, 8256, 9184, 9632, 11008}));
  EXPECT_EQ(leaf_ends(channel_leaf_cuts(14336)),
            (Cuts{1792, 2400, 3584, 4784, 4800, 5376, 7168, 7184, 8960, 9568, 10752, 11952, 12544, 14336}));
  EXPECT_EQ(leaf_ends(channel_leaf_cuts(100)), (Cuts{16, 20, 28, 36, 40, 52, 64, 68, 76, 84, 88, 100}));
}

TEST(Leaves, OfQueryHeads) {
  EXPECT_EQ(leaf_ends(query_head_leaf_cuts(28, 4)), (Cuts{4, 7, 11, 14, 18, 21, 25, 28}));
  EXPECT_EQ(leaf_ends(query_head_leaf_cuts(6, 3)), (Cuts{1, 2, 3, 4, 5, 6}));  // 8 ranks cannot hold 6 heads
  EXPECT_EQ(leaf_ends(query_head_leaf_cuts(40, 40)), (Cuts{5, 7, 10, 14, 15, 20, 21, 25, 27, 28, 30, 34, 35, 40}));
  EXPECT_EQ(leaf_ends(query_head_leaf_cuts(48, 1)), (Cuts{6, 8, 12, 16, 18, 24, 30, 32, 36, 40, 42, 48}));
}

TEST(Leaves, InsideARange) {
  const Cuts cuts{0, 4, 7, 11, 14};
  EXPECT_EQ(local_leaf_ends(cuts, {0, 14}), (Cuts{4, 7, 11, 14}));
  EXPECT_EQ(local_leaf_ends(cuts, {7, 14}), (Cuts{4, 7}));
  EXPECT_EQ(local_leaf_ends(cuts, {5, 9}), (Cuts{2, 4}));  // parts of two leaves
  EXPECT_EQ(local_leaf_ends(cuts, {7, 7}), Cuts{});
}

TEST(Leaves, EveryReproducibleCountHoldsWholeOnes) {
  for (const int ranks : {1, 2, 3, 4, 6, 8}) EXPECT_TRUE(is_reproducible_count(ranks));
  for (const int ranks : {0, 5, 7, 9, 16}) EXPECT_FALSE(is_reproducible_count(ranks));
  for (std::int64_t width = 1; width < 1400; width += width < 80 ? 1 : 7) {
    const Cuts leaves = channel_leaf_cuts(width);
    EXPECT_TRUE(std::ranges::is_sorted(leaves) && std::ranges::adjacent_find(leaves) == leaves.end());
    for (const int ranks : kReproducibleRanks) {
      if (ranks > width) continue;
      const Cuts cuts = channel_cuts(width, ranks);
      EXPECT_TRUE(std::ranges::includes(leaves, cuts)) << width << " channels, " << ranks << " ranks";
      for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
        // the ends that a rank sums to, put back in place, are the global ones of its range
        for (const std::int64_t end : local_leaf_ends(leaves, {cuts[r], cuts[r + 1]}))
          EXPECT_TRUE(std::ranges::binary_search(leaves, cuts[r] + end)) << width << " channels, " << ranks << " ranks";
      }
    }
  }
  for (std::int64_t kv = 1; kv <= 12; ++kv)
    for (std::int64_t group = 1; group <= 9; ++group)
      for (const int ranks : kReproducibleRanks)
        if (ranks <= kv * group) {
          EXPECT_TRUE(
              std::ranges::includes(query_head_leaf_cuts(kv * group, kv), query_head_cuts(kv * group, kv, ranks)));
        }
}

}  // namespace
}  // namespace tpinfer
