#include "comm/device_communicator.hpp"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "comm/host_device.hpp"
#include "core/exact_sum.hpp"
#include "device_reference.hpp"
#include "mpi_test.hpp"

namespace tpinfer {
namespace {

using testing::fill;
using ::testing::HasSubstr;
using testing::kMost;
using testing::options_for;
using testing::reduce;
using testing::reference;
using testing::same_bits;
using testing::total_of;
using testing::world;

struct Case {
  std::string name;
  Transport transport = Transport::automatic;
  std::vector<int> hosts;  // pretended
  std::string kind;
};

std::vector<Case> cases() {
  const int ranks = world().size();
  if (ranks == 1) return {{"self", Transport::automatic, {}, "self"}};
  std::vector<Case> all = {{"shm", Transport::automatic, {}, "shm"}, {"mpi", Transport::mpi, {}, "mpi"}};
  if (ranks == 2) all.push_back({"two hosts", Transport::automatic, {0, 1}, "mpi"});
  if (ranks == 3) {
    all.push_back({"2 + 1", Transport::automatic, {0, 0, 1}, "shm+mpi"});
    all.push_back({"1 + 2", Transport::automatic, {7, 3, 3}, "shm+mpi"});
  }
  if (ranks == 4) {
    all.push_back({"2 + 2", Transport::automatic, {0, 0, 1, 1}, "shm+mpi"});
    all.push_back({"2 + 2 in turn", Transport::automatic, {0, 1, 0, 1}, "shm+mpi"});
    all.push_back({"3 + 1", Transport::automatic, {0, 0, 0, 1}, "shm+mpi"});
    all.push_back({"1 + 1 + 2", Transport::automatic, {0, 1, 2, 2}, "shm+mpi"});
  }
  return all;
}

std::unique_ptr<DeviceCommunicator> make(const Case& which, ParallelFor& parallel, DType partials = DType::float64) {
  auto options = options_for(which.transport);
  options.partials = partials;
  auto device = make_host_device_communicator(world(), parallel, options, HostDeviceOverrides{which.hosts, {}});
  EXPECT_EQ(device->kind(), which.kind) << which.name;
  EXPECT_EQ(device->rank(), world().rank());
  EXPECT_EQ(device->size(), world().size());
  EXPECT_EQ(device->stats().collectives, 0u);  // the self-test is not counted
  EXPECT_EQ(device->note(), "");
  return device;
}

TEST(Device, ReducesExactlyByEveryTransport) {
  testing::SerialFor serial;
  testing::PairFor pair;
  for (const auto& which : cases()) {
    for (ParallelFor* parallel : {static_cast<ParallelFor*>(&serial), static_cast<ParallelFor*>(&pair)}) {
      const auto device = make(which, *parallel);
      int call = 0;
      // both kinds of reduce, in turn, so that every change of buffers occurs
      for (const std::int64_t count :
           {1L, 7L, 100'000L, 1000L, 0L, 99'999L, 100'000L, 7L, 1000L, kOneShotLimit, kOneShotLimit + 1, kMost}) {
        ++call;
        EXPECT_TRUE(same_bits(reduce(*device, call, count), reference(world().size(), call, count)))
            << which.name << ", " << count << " values, " << parallel->threads() << " threads";
      }
      if (world().size() > 1) {
        EXPECT_EQ(device->stats().collectives, 12u);
      }
      EXPECT_EQ(device->stats().beyond_exact, 0u);
    }
  }
}

// Whole numbers, whose float32 sums are exact in any order.
TEST(Device, AddsFloatsAsTheyAre) {
  testing::SerialFor serial;
  testing::PairFor pair;
  const int ranks = world().size();
  for (const auto& which : cases())
    for (ParallelFor* parallel : {static_cast<ParallelFor*>(&serial), static_cast<ParallelFor*>(&pair)}) {
      const auto device = make(which, *parallel, DType::float32);
      std::uint64_t values = 0;
      for (const std::int64_t count : {1L, 7L, 50'000L, 1000L, 0L, kOneShotLimit, kOneShotLimit + 1, kMost}) {
        std::vector<float> total(static_cast<std::size_t>(count), -1);
        const Tensor to = total_of(total, count);
        const Tensor partials = device->partials(to);
        ASSERT_EQ(partials.dtype, DType::float32);
        for (std::int64_t i = 0; i < count; ++i) partials.floats()[i] = static_cast<float>(i % 1001 + world().rank());
        device->reduce(partials, to);
        values += static_cast<std::uint64_t>(count);
        for (std::int64_t i = 0; i < count; ++i)
          ASSERT_EQ(total[static_cast<std::size_t>(i)],
                    static_cast<float>(ranks * (i % 1001) + ranks * (ranks - 1) / 2))
              << which.name << ", place " << i << " of " << count;
      }
      EXPECT_EQ(device->stats().bytes, ranks == 1 ? 0 : values * sizeof(float)) << which.name;
      EXPECT_EQ(device->stats().beyond_exact, 0U);
    }
}

TEST(Device, ManySmallReducesWithRandomDelays) {
  testing::SerialFor serial;
  for (const auto& which : cases()) {
    const auto device = make(which, serial);
    std::mt19937 engine(static_cast<unsigned>(world().rank()) + 17);
    int wrong = 0;
    for (int call = 0; call < 1000; ++call) {
      if (engine() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(engine() % 1000));
      const std::int64_t count = 1 + call % 37;
      if (!same_bits(reduce(*device, call, count), reference(world().size(), call, count))) ++wrong;
    }
    EXPECT_EQ(wrong, 0) << which.name;
  }
}

TEST(Device, BackToBackReducesOfMixedSizes) {
  testing::SerialFor serial;
  for (const auto& which : cases()) {
    const auto device = make(which, serial);
    std::mt19937 engine(5);  // the same sizes on all ranks
    std::vector<double> ours(kMost);
    std::vector<float> total(kMost);
    int wrong = 0;
    for (int call = 0; call < 300; ++call) {
      const std::int64_t count = engine() % 4 ? engine() % 600 : engine() % 40'000;
      // value of place i in this call: cheap, so that ranks follow each other closely
      const Tensor to = total_of(total, count);
      const Tensor partials = device->partials(to);
      for (std::int64_t i = 0; i < count; ++i)
        static_cast<double*>(partials.data)[i] = (world().rank() + 1) * 0.25 + static_cast<double>(i + call);
      device->reduce(partials, to);
      const int ranks = world().size();
      for (std::int64_t i = 0; i < count; ++i) {
        const double expected = ranks * (ranks + 1) / 2 * 0.25 + ranks * static_cast<double>(i + call);
        if (total[static_cast<std::size_t>(i)] != static_cast<float>(expected)) ++wrong;
      }
    }
    EXPECT_EQ(wrong, 0) << which.name;
  }
}

TEST(Device, GathersUnevenColumns) {
  testing::SerialFor serial;
  const int ranks = world().size();
  for (const auto& which : cases()) {
    const auto device = make(which, serial);
    for (int call = 0; call < 40; ++call) {
      std::vector<std::int64_t> widths;
      for (int rank = 0; rank < ranks; ++rank)
        widths.push_back((rank * 7 + call * 3) % 11 == 0 ? 0 : 500 + rank - call);
      if (call == 5) widths.assign(widths.size(), 0);
      const std::int64_t rows = call % 7;  // 0 as well
      const auto value = [&](int rank, std::int64_t row, std::int64_t column) {
        return static_cast<float>(rank * 100'000 + row * 1000 + column + call);
      };
      std::vector<float> local;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < widths[static_cast<std::size_t>(world().rank())]; ++column)
          local.push_back(value(world().rank(), row, column));
      std::vector<float> expected;
      for (std::int64_t row = 0; row < rows; ++row)
        for (int rank = 0; rank < ranks; ++rank)
          for (std::int64_t column = 0; column < widths[static_cast<std::size_t>(rank)]; ++column)
            expected.push_back(value(rank, row, column));
      std::vector<float> out(expected.size(), -1);
      device->gather_columns(local.data(), rows, widths, world().rank() == 0 ? out.data() : nullptr);
      if (world().rank() == 0) {
        EXPECT_EQ(out, expected) << which.name << ", call " << call;
      }
      // gathers back to back, and with reduces between
      if (call % 3 == 0) {
        EXPECT_TRUE(same_bits(reduce(*device, call, 200), reference(ranks, call, 200))) << which.name;
      }
    }
  }
}

// Whole rows, divided in ever other ways: some ranks get none. Back to back, and with gathers and reduces between.
TEST(Device, SharesRowsOut) {
  testing::SerialFor serial;
  const int ranks = world().size();
  const auto me = static_cast<std::size_t>(world().rank());
  for (const auto& which : cases()) {
    const auto device = make(which, serial);
    ASSERT_TRUE(device->shares_rows());
    for (int call = 0; call < 60; ++call) {
      std::vector<std::int64_t> widths;
      std::vector<std::int64_t> begins{0};
      for (int rank = 0; rank < ranks; ++rank) {
        widths.push_back((rank * 5 + call) % 7 == 0 ? 0 : 300 + 3 * rank - call);
        begins.push_back(begins.back() + (rank * 3 + call) % 5);
      }
      const auto value = [&](std::size_t rank, std::int64_t row, std::int64_t column) {
        return static_cast<float>(static_cast<std::int64_t>(rank) * 100'000 + row * 1000 + column + call);
      };
      std::vector<float> local;
      for (std::int64_t row = 0; row < begins.back(); ++row)
        for (std::int64_t column = 0; column < widths[me]; ++column) local.push_back(value(me, row, column));
      std::vector<float> expected;
      for (std::int64_t row = begins[me]; row < begins[me + 1]; ++row)
        for (std::size_t rank = 0; rank < widths.size(); ++rank)
          for (std::int64_t column = 0; column < widths[rank]; ++column) expected.push_back(value(rank, row, column));
      std::vector<float> out(expected.size(), -1);
      device->share_rows(local.data(), begins, widths, out.data());
      EXPECT_EQ(out, expected) << which.name << ", call " << call;
      if (call % 4 == 1) {  // a gather that shows the same memory of the window
        const std::vector<std::int64_t> one(widths.size(), 2);
        const std::vector<float> mine{static_cast<float>(me), static_cast<float>(call)};
        std::vector<float> all(2 * widths.size());
        device->gather_columns(mine.data(), 1, one, me == 0 ? all.data() : nullptr);
        if (me == 0) {
          EXPECT_EQ(all[all.size() - 2], static_cast<float>(ranks - 1)) << which.name;
        }
      }
      if (call % 3 == 0) {
        EXPECT_TRUE(same_bits(reduce(*device, call, 200), reference(ranks, call, 200))) << which.name;
      }
    }
    const std::vector<std::int64_t> nothing;
    EXPECT_THROW(device->share_rows(nullptr, nothing, nothing, nullptr), Error) << which.name;
  }
}

TEST(Device, CountsTotalsBeyondTheExactRangeOnce) {
  testing::SerialFor serial;
  const int ranks = world().size();
  for (const auto& which : cases()) {
    const auto device = make(which, serial);
    for (const std::int64_t count : {100L, 50'000L}) {
      std::vector<float> total(static_cast<std::size_t>(count));
      const Tensor to = total_of(total, count);
      const Tensor parts = device->partials(to);
      auto* partials = static_cast<double*>(parts.data);
      std::fill_n(partials, count, 1.0);
      partials[0] = kExactLimit / ranks;                       // just beyond, all together
      partials[count - 1] = -2 * kExactLimit;                  // far beyond
      partials[1] = (kExactLimit - 1024) / ranks;              // just below
      partials[2] = std::numeric_limits<double>::quiet_NaN();  // passes through
      partials[3] = std::numeric_limits<double>::infinity();   // passes through, and is large
      device->reduce(parts, to);
      EXPECT_TRUE(std::isnan(total[2])) << which.name;
      EXPECT_TRUE(std::isinf(total[3])) << which.name;
      EXPECT_EQ(total.back(), static_cast<float>(-2 * kExactLimit * ranks)) << which.name;
    }
    std::int64_t all = 0;
    for (const auto part : world().all_gather(static_cast<std::int64_t>(device->stats().beyond_exact), "test"))
      all += part;
    const std::int64_t first = kExactLimit / ranks * ranks >= kExactLimit ? 1 : 0;
    EXPECT_EQ(all, 2 * (2 + first)) << which.name;
  }
}

TEST(Device, RefusesMoreThanAnnounced) {
  testing::SerialFor serial;
  const auto device = make(cases().front(), serial);
  std::vector<float> total(kMost + 1);
  for (const std::int64_t count : {kMost + 1, std::int64_t{-1}}) {
    const Tensor to = total_of(total, count);
    EXPECT_THROW(device->reduce(device->partials(to), to), Error);
  }
  const Tensor to = total_of(total, 4);
  EXPECT_THROW(device->reduce(device->partials(total_of(total, 5)), to), Error);
  EXPECT_THROW(device->reduce({total.data(), DType::float32, 1, 4}, to), Error);
  const std::vector<std::int64_t> widths(static_cast<std::size_t>(world().size()), 20'001);
  EXPECT_THROW(device->gather_columns(total.data(), 1, widths, total.data()), Error);
}

TEST(Device, NamesTheRankThatIsMissing) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  testing::SerialFor serial;
  const int last = world().size() - 1;
  for (const auto transport : {Transport::shm, Transport::mpi}) {
    const MpiSession session;
    const auto comm = session.world(30);
    auto options = options_for(transport);
    options.timeout = 0.5;
    const auto device = make_host_device_communicator(*comm, serial, options);
    world().barrier("begin of a deadline test");
    if (world().rank() == last) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2000));
      EXPECT_NO_THROW(reduce(*device, 1, 100));
    } else {
      const auto start = std::chrono::steady_clock::now();
      try {
        reduce(*device, 1, 100);
        ADD_FAILURE() << "went on without rank " << last;
      } catch (const Error& error) {
        const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
        EXPECT_LT(waited.count(), 1.9);
        EXPECT_EQ(error.code(), ExitCode::communication);
        EXPECT_THAT(error.what(), HasSubstr("(forward pass): rank " + std::to_string(world().rank())));
        EXPECT_THAT(error.what(), HasSubstr(" rank " + std::to_string(last) + " ("));
        EXPECT_TRUE(comm->broken());
      }
    }
    world().barrier("end of a deadline test");
  }
}

TEST(Device, NoticesRanksThatDisagreeOnTheSize) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  testing::SerialFor serial;
  const auto device = make_host_device_communicator(world(), serial, options_for(Transport::shm));
  std::vector<float> total(20);
  try {
    const Tensor to = total_of(total, world().rank() == 0 ? 10 : 11);
    device->reduce(device->partials(to), to);
    EXPECT_GT(world().rank(), 0) << "rank 0 sees only others";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    EXPECT_THAT(error.what(), HasSubstr("works on 1"));
  }
  world().barrier("test");
}

}  // namespace
}  // namespace tpinfer
