#include "runtime/core_use.hpp"

#include <gmock/gmock.h>

namespace tpinfer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> complaints(std::vector<CoreUse> ranks, std::optional<std::int64_t> asked = {}) {
  return core_complaints(ranks, asked);
}

TEST(CoreUse, EnoughCoresAreNoComplaint) {
  EXPECT_THAT(complaints({{"a", 2, {0, 1}}, {"a", 2, {2, 3}}}), IsEmpty());
  EXPECT_THAT(complaints({{"a", 2, {0, 1, 2, 3}, {0, 1, 2, 3}}, {"a", 2, {0, 1, 2, 3}, {0, 1, 2, 3}}}), IsEmpty());
  EXPECT_THAT(complaints({{"a", 1, {0, 1, 2, 3}}}), IsEmpty());  // fewer threads are the job's own wish
  EXPECT_THAT(complaints({{"a", 1, {}}}), IsEmpty());            // nothing is known
}

TEST(CoreUse, ABindingThatLeavesCoresIdleIsTold) {
  const std::vector<std::int32_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_THAT(
      complaints({{"a", 1, {0}, all}, {"a", 1, {1}, all}}),
      ElementsAre("mpirun lets the 2 ranks on a use 2 of 8 cores only, with 2 threads (mpirun --bind-to none)"));
  EXPECT_THAT(complaints({{"a", 1, {0}, all}, {"b", 8, all, all}}),
              ElementsAre(HasSubstr("the 1 rank on a use 1 of 8")));
  // bound to half of the cores each: none is idle
  EXPECT_THAT(complaints({{"a", 4, {0, 1, 2, 3}, all}, {"a", 4, {4, 5, 6, 7}, all}}), IsEmpty());
}

TEST(CoreUse, MoreThreadsThanCoresAreTold) {
  EXPECT_THAT(complaints({{"a", 8, {0, 1}}, {"a", 8, {0, 1}}}, 8),
              ElementsAre("2 ranks on a compute with 16 threads together, but may use 2 cores (leave parallel.threads "
                          "out, which shares the cores out)"));
  EXPECT_THAT(complaints({{"a", 1, {0, 1}}, {"a", 1, {0, 1}}, {"a", 1, {0, 1}}}),
              ElementsAre(HasSubstr("3 threads together, but may use 2 cores (fewer ranks would be faster)")));
}

TEST(CoreUse, CrossesRanksWhole) {
  const CoreUse use{"host", 3, {1, 5}, {0, 1, 5}};
  const CoreUse back = decode_core_use(encode(use));
  EXPECT_EQ(back.host, use.host);
  EXPECT_EQ(back.threads, use.threads);
  EXPECT_EQ(back.cores, use.cores);
  EXPECT_EQ(back.launchers, use.launchers);
}

TEST(CoreUse, OfThisProcess) {
  const CoreUse use = own_core_use("here", 2);
  EXPECT_EQ(use.host, "here");
  EXPECT_FALSE(use.cores.empty());
}

}  // namespace
}  // namespace tpinfer
