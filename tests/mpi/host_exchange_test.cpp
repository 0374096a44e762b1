// The ranks here are those of one host.
#include "comm/host_exchange.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "mpi_test.hpp"

namespace tpinfer::testing {
namespace {

std::uint64_t value_of(int rank, int round) { return static_cast<std::uint64_t>(1000 * round + rank); }

TEST(HostExchange, EveryRankReadsWhatEveryRankWrote) {
  HostExchange exchange(world(), 1 << 16, 60);
  EXPECT_EQ(exchange.size(), world().local_size());
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t mine = value_of(exchange.rank(), round);
    if ((round + exchange.rank()) % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    std::memcpy(exchange.mine() + 8 * (round % 100), &mine, 8);
    ASSERT_TRUE(exchange.meet());
    for (int rank = 0; rank < exchange.size(); ++rank) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, exchange.of(rank) + 8 * (round % 100), 8);
      ASSERT_EQ(theirs, value_of(rank, round)) << "round " << round;
    }
    exchange.next();
  }
}

TEST(HostExchange, AFailedRankEndsTheWaitOfTheOthers) {
  HostExchange exchange(world(), 4096, 60);
  EXPECT_TRUE(exchange.meet());
  exchange.next();
  world().barrier("all have met");  // a failure may be seen before the meeting that it follows
  const bool last = exchange.rank() == exchange.size() - 1;
  if (exchange.size() == 1) return;
  if (last)
    exchange.fail();
  else
    EXPECT_FALSE(exchange.meet());
}

// The failure may be seen in the meeting before by one rank, and not until the next by another, which then waits for
// the first.
TEST(HostExchange, AFailureReachesRanksThatAreARoundAhead) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    HostExchange exchange(world(), 4096, 5);
    if (exchange.size() == 1) return;
    world().barrier("all are there");
    if (exchange.rank() == exchange.size() - 1) {
      exchange.meet();
      exchange.fail();
    } else {
      while (exchange.meet()) exchange.next();
    }
    world().barrier("all have seen the failure");
  }
}

TEST(HostExchange, ARankThatDoesNotComeIsNamed) {
  if (world().size() == 1) return;
  HostExchange exchange(world(), 4096, 0.3);
  const int last = exchange.size() - 1;
  if (exchange.rank() == last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
  } else {
    try {
      exchange.meet();
      ADD_FAILURE() << "nobody missed";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::communication);
      EXPECT_NE(std::string(e.what()).find("rank " + std::to_string(last)), std::string::npos) << e.what();
    }
  }
  world().barrier("after the missing rank");
}

}  // namespace
}  // namespace tpinfer::testing
