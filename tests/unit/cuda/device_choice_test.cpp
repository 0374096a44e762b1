// Which rank of a host takes which GPU; in every build.
#include "backend/cuda/device_choice.hpp"

#include <gtest/gtest.h>

namespace tpinfer {
namespace {

using Seen = std::vector<std::vector<std::string>>;

TEST(DeviceChoice, EveryRankGetsAGpuOfItsOwnWhateverPartItSees) {
  const std::vector<std::string> all{"a", "b", "c", "d"};
  EXPECT_EQ(assign_gpus({all, all, all, all}), (std::vector<int>{0, 1, 2, 3}));  // --gpus-per-node
  EXPECT_EQ(assign_gpus({{"a"}, {"b"}, {"c"}}), (std::vector<int>{0, 0, 0}));    // --gpus-per-task=1
  EXPECT_EQ(assign_gpus({{"a", "b"}, {"c", "d"}}), (std::vector<int>{0, 0}));    // --gpus-per-task=2
  EXPECT_EQ(assign_gpus({{"a", "b"}, {"a"}}), (std::vector<int>{1, 0}));         // the second has no other
  EXPECT_EQ(assign_gpus({{"a", "b"}, {"b", "c"}, {"a"}}), (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(assign_gpus({all, all}), (std::vector<int>{0, 1}));
}

TEST(DeviceChoice, TooFewGpusAreSharedEvenly) {
  EXPECT_EQ(assign_gpus({{"a"}, {"a"}, {"a"}}), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(assign_gpus(Seen(4, {"a", "b"})), (std::vector<int>{0, 1, 0, 1}));
}

TEST(DeviceChoice, ARankWithoutGpusGetsNone) {
  EXPECT_EQ(assign_gpus({{}, {"a"}}), (std::vector<int>{-1, 0}));
  EXPECT_EQ(assign_gpus({}), std::vector<int>{});
}

TEST(DeviceChoice, AnUnknownNodeBindsNothing) {
  EXPECT_FALSE(bind_near(-1));
  EXPECT_FALSE(bind_near(4095));
}

}  // namespace
}  // namespace tpinfer
