#include "comm/communicator.hpp"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

#include "mpi_test.hpp"

namespace tpinfer {
namespace {

using ::testing::HasSubstr;
using testing::world;

constexpr std::size_t kChunk = 1024;

// Bytes that differ from place to place and from `seed` to `seed`.
std::vector<std::byte> pattern(std::size_t length, int seed) {
  std::vector<std::byte> bytes(length);
  std::uint64_t state = static_cast<std::uint64_t>(seed) + 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

TEST(Communicator, BroadcastsAnyLengthInChunks) {
  const MpiSession session;
  const auto comm = session.world(30, kChunk);
  // the head of a broadcast takes 1016 bytes: lengths around it, around one and two chunks behind it, and a long one
  for (const std::size_t length : {0u, 1u, 1015u, 1016u, 1017u, 2039u, 2040u, 2041u, 3064u, 3065u, 300u << 10}) {
    for (const int root : {0, comm->size() - 1}) {
      auto bytes = comm->rank() == root ? pattern(length, root) : pattern(77, 99);
      comm->broadcast(bytes, root, "test");
      EXPECT_EQ(bytes.size(), length);
      EXPECT_TRUE(bytes == pattern(length, root)) << length << " bytes from rank " << root;
    }
  }
}

TEST(Communicator, BroadcastReusesMemory) {
  std::vector<std::byte> bytes;
  bytes.reserve(4000);
  const auto* before = bytes.data();
  if (world().rank() == 0) bytes.resize(3000);
  world().broadcast(bytes, 0, "test");
  EXPECT_EQ(bytes.size(), 3000u);
  EXPECT_EQ(bytes.data(), before);
}

TEST(Communicator, GathersUnevenBytes) {
  const MpiSession session;
  const auto comm = session.world(30, kChunk);
  for (const int root : {0, comm->size() - 1}) {
    const auto length = [](int rank) { return static_cast<std::size_t>(rank) * 1500; };
    const auto all = comm->gather(pattern(length(comm->rank()), comm->rank()), root, "test");
    if (comm->rank() != root) {
      EXPECT_TRUE(all.empty());
      continue;
    }
    ASSERT_EQ(std::ssize(all), comm->size());
    for (int rank = 0; rank < comm->size(); ++rank)
      EXPECT_TRUE(all[static_cast<std::size_t>(rank)] == pattern(length(rank), rank)) << rank;
  }
}

TEST(Communicator, AllGathersByRank) {
  const auto values = world().all_gather((std::int64_t{1} << 40) + world().rank(), "test");
  ASSERT_EQ(std::ssize(values), world().size());
  for (std::size_t rank = 0; rank < values.size(); ++rank)
    EXPECT_EQ(values[rank], (std::int64_t{1} << 40) + static_cast<std::int64_t>(rank));
}

TEST(Communicator, KnowsItsHost) {
  EXPECT_EQ(world().local_size(), world().size());
  EXPECT_EQ(world().local_rank(), world().rank());
}

TEST(Communicator, SplitsInOrderOfRank) {
  const int me = world().rank();
  const auto part = world().split(me % 2, "test");
  const auto ranks = part->all_gather(me, "test");
  std::vector<std::int64_t> expected;
  for (int rank = me % 2; rank < world().size(); rank += 2) expected.push_back(rank);
  EXPECT_EQ(ranks, expected);
  EXPECT_EQ(part->size(), static_cast<int>(expected.size()));
  EXPECT_EQ(part->rank(), me / 2);
  EXPECT_EQ(part->local_size(), part->size());
  auto bytes = part->rank() == 0 ? pattern(5000, me % 2) : std::vector<std::byte>();
  part->broadcast(bytes, 0, "test");
  EXPECT_TRUE(bytes == pattern(5000, me % 2));
}

// The Error that agree() gives when the ranks in `failing` throw what `make` makes.
std::optional<Error> agreed(const std::vector<int>& failing, const std::function<void(int)>& raise) {
  const int me = world().rank();
  try {
    together(world(), "test", [&] {
      if (std::find(failing.begin(), failing.end(), me) != failing.end()) raise(me);
    });
  } catch (const Error& error) {
    return error;
  }
  return {};
}

void raise_input(int rank) { throw Error(ExitCode::input, fmt::format("no file of {}", rank), "make it"); }

TEST(Agree, GoesOnWhenAllAreFine) { EXPECT_FALSE(agreed({}, raise_input)); }

TEST(Agree, RankZeroSpeaksWithoutItsNumber) {
  const auto error = agreed({0}, raise_input);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::input);
  EXPECT_STREQ(error->what(), "no file of 0 (make it)");
}

TEST(Agree, TheLastRankIsNamed) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const int last = world().size() - 1;
  const auto error = agreed({last}, raise_input);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::input);
  EXPECT_EQ(error->what(), fmt::format("rank {0}: no file of {0} (make it)", last));
}

TEST(Agree, TheLowestSpeaksForSeveral) {
  if (world().size() < 3) GTEST_SKIP() << "needs three ranks";
  std::vector<int> failing(static_cast<std::size_t>(world().size()) - 1);
  std::iota(failing.begin(), failing.end(), 1);
  const auto error = agreed(failing, [](int rank) {
    if (rank == 1) throw Error(ExitCode::does_not_fit, "too big");
    raise_input(rank);
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::does_not_fit);
  const int more = world().size() - 2;
  EXPECT_EQ(error->what(), fmt::format("rank 1: too big, and {} more rank{}", more, more == 1 ? "" : "s"));
}

TEST(Agree, WhatAllSayIsSaidOnce) {
  std::vector<int> all(static_cast<std::size_t>(world().size()));
  std::iota(all.begin(), all.end(), 0);
  const auto error = agreed(all, [](int) { throw Error(ExitCode::usage, "the job has no model"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::usage);
  EXPECT_STREQ(error->what(), "the job has no model");
}

class OddError : public Error {
 public:
  OddError() : Error(ExitCode::usage, "odd") {}
};

TEST(Agree, ARankThatSpeaksForItselfKeepsItsErrorsType) {
  bool kept = false;
  try {
    together(world(), "test", [] {
      if (world().rank() == 0) throw OddError();
    });
  } catch (const Error& error) {
    kept = dynamic_cast<const OddError*>(&error) != nullptr;
    EXPECT_STREQ(error.what(), "odd");
  }
  EXPECT_EQ(kept, world().rank() == 0);
}

TEST(Agree, OtherExceptionsAreInternal) {
  const auto error = agreed({0}, [](int) { throw std::out_of_range("index 7"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::internal);
  EXPECT_STREQ(error->what(), "index 7");
  const auto memory = agreed({0}, [](int) { throw std::bad_alloc(); });
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->code(), ExitCode::internal);
  EXPECT_STREQ(memory->what(), "out of memory");
  // an Error without an error's code must not pass for success
  const auto fine = agreed({0}, [](int) { throw Error(ExitCode::ok, "odd"); });
  ASSERT_TRUE(fine);
  EXPECT_EQ(fine->code(), ExitCode::internal);
}

// Runs `collective` on a communicator of its own while the last rank comes late, and checks what the others get.
void check_deadline(const std::string& operation, const std::function<void(Communicator&)>& collective) {
  const int last = world().size() - 1;
  const MpiSession session;  // a deadline breaks all communicators of a session
  const auto comm = session.world(0.5);
  world().barrier("begin of a deadline test");
  if (comm->rank() == last) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    EXPECT_NO_THROW(collective(*comm));
  } else {
    const auto start = std::chrono::steady_clock::now();
    try {
      collective(*comm);
      ADD_FAILURE() << operation << " went on without rank " << last;
    } catch (const Error& error) {
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      EXPECT_GE(waited.count(), 0.49);
      EXPECT_LT(waited.count(), 1.9);
      EXPECT_EQ(error.code(), ExitCode::communication);
      EXPECT_THAT(error.what(), HasSubstr(operation + " (slow step): rank " + std::to_string(comm->rank())));
      EXPECT_THAT(error.what(), HasSubstr("without word from rank " + std::to_string(last) + " ("));
      EXPECT_THAT(error.what(), ::testing::ContainsRegex("waited [01][.][0-9] s"));
    }
    EXPECT_TRUE(comm->broken());
    try {
      comm->barrier("later");
      ADD_FAILURE() << "a broken communicator went on";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("communication has failed before: " + operation));
    }
    // agreement on a broken communicator gives the rank's own failure at once
    EXPECT_THROW(together(*comm, "later", [] { throw std::out_of_range("own"); }), std::out_of_range);
  }
  world().barrier("end of a deadline test");
}

TEST(Deadline, BarrierNamesTheMissingRank) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  check_deadline("barrier", [](Communicator& comm) { comm.barrier("slow step"); });
}

TEST(Deadline, GatherNamesTheMissingRank) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  check_deadline("all-gather", [](Communicator& comm) { comm.gather(pattern(10, 1), 0, "slow step"); });
}

TEST(Deadline, BroadcastNamesTheMissingRootAndKeepsItsMemory) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  check_deadline("broadcast", [](Communicator& comm) {
    auto bytes = pattern(50, 1);
    comm.broadcast(bytes, comm.size() - 1, "slow step");
  });
}

TEST(Deadline, WaitingUsesLittleOfTheProcessor) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto used = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage;
  };
  const auto seconds = [](const rusage& usage) {
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
  };
  const auto before = used();
  if (world().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  world().barrier("test");
  const auto after = used();
  EXPECT_LT(seconds(after) - seconds(before), 0.3) << "a waiting rank burns its core";
  if (world().rank() != 0) {  // on a busy machine yielding alone would pass the test above
    EXPECT_GT(after.ru_nvcsw - before.ru_nvcsw, 50) << "a waiting rank does not nap";
  }
}

TEST(SelfCommunicator, IsAWorldOfOne) {
  const auto comm = make_self_communicator();
  EXPECT_EQ(comm->size(), 1);
  auto bytes = pattern(9, 1);
  comm->broadcast(bytes, 0, "test");
  EXPECT_TRUE(bytes == pattern(9, 1));
  EXPECT_TRUE(comm->gather(bytes, 0, "test") == std::vector<std::vector<std::byte>>{bytes});
  EXPECT_EQ(comm->all_gather(5, "test"), std::vector<std::int64_t>{5});
  EXPECT_EQ(comm->split(3, "test")->size(), 1);
  EXPECT_THROW(comm->broadcast(bytes, 1, "test"), Error);
  EXPECT_THROW(together(*comm, "test", [] { raise_input(0); }), Error);
  EXPECT_FALSE(mpi_library_version().empty());
}

TEST(Communicator, RefusesARootThatIsNotThere) {
  std::vector<std::byte> bytes;
  EXPECT_THROW(world().broadcast(bytes, world().size(), "test"), Error);
  EXPECT_THROW(world().gather(bytes, -1, "test"), Error);
}

}  // namespace
}  // namespace tpinfer
