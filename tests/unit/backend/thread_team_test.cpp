#include "backend/cpu/thread_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

namespace tpinfer {
namespace {

TEST(ThreadTeam, CoversEveryIndexOnceInRangesOfTheGrain) {
  for (const int threads : {1, 2, 3, 4, 7}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (const std::int64_t count : {0, 1, 2, 5, 16, 17, 100, 1001}) {
      for (const std::int64_t grain : {1, 3, 16}) {
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
        team.run(count, grain, [&](std::int64_t begin, std::int64_t end) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_LT(begin, end);
          for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        for (const auto& h : hits) EXPECT_EQ(h, 1);
      }
    }
  }
}

TEST(ThreadTeam, EveryThreadGetsAShare) {
  ThreadTeam team(4);
  std::atomic<int> calls{0};
  team.run(4, 1, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(end, begin + 1);
    ++calls;
  });
  EXPECT_EQ(calls, 4);
}

TEST(ThreadTeam, ManyShortRunsWithMoreThreadsThanProcessors) {
  for (const int threads : {2, 4, available_processors() + 3}) {
    ThreadTeam team(threads);
    std::vector<std::int64_t> sums(64);
    for (int round = 0; round < 4000; ++round) {
      team.run(64, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) sums[static_cast<std::size_t>(i)] += i;
      });
    }
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::int64_t{0}), 4000 * 64 * 63 / 2);
  }
}

TEST(ThreadTeam, WorksAfterASleepAndIsDestroyedWhileAsleep) {
  ThreadTeam team(3);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<std::int64_t> sum{0};
    team.run(30, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 30);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(ThreadTeam, ExceptionOfTheLowestThreadReachesTheCallerAndTheTeamLivesOn) {
  ThreadTeam team(4);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> done{0};
    try {
      team.run(4, 1, [&](std::int64_t begin, std::int64_t) {
        if (begin % 2 == 1) throw std::runtime_error("share " + std::to_string(begin));
        ++done;
      });
      FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "share 1");
    }
    EXPECT_EQ(done, 2);
    team.run(4, 1, [&](std::int64_t, std::int64_t) { ++done; });
    EXPECT_EQ(done, 6);
  }
}

TEST(ThreadTeam, RunInsideABodyIsDoneInPlace) {
  ThreadTeam team(2);
  std::atomic<std::int64_t> sum{0};
  team.run(8, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) team.run(10, 1, [&](std::int64_t b, std::int64_t e) { sum += e - b; });
  });
  EXPECT_EQ(sum, 80);
}

}  // namespace
}  // namespace tpinfer
