// The shared-memory window, and the test that every device communicator passes at its start.
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "comm/host_device.hpp"
#include "device_reference.hpp"
#include "mpi_test.hpp"

namespace tpinfer {
namespace {

using ::testing::HasSubstr;
using testing::kMost;
using testing::options_for;
using testing::reduce;
using testing::reference;
using testing::same_bits;
using testing::world;

std::set<std::string> windows_in_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().starts_with("tpinfer-")) names.insert(entry.path().filename());
  return names;
}

// Names that were not there before and stay; those that other programs make just now go away.
void expect_no_new_names(const std::set<std::string>& before) {
  world().barrier("test");  // the rank that makes a window removes its name last
  const auto soon = windows_in_shm();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto later = windows_in_shm();
  for (const auto& name : later) {
    if (!before.contains(name)) {
      EXPECT_FALSE(soon.contains(name)) << "/dev/shm/" << name << " stays";
    }
  }
  world().barrier("test");
}

TEST(Window, LeavesNoName) {
  const auto before = windows_in_shm();
  testing::SerialFor serial;
  const auto device = make_host_device_communicator(world(), serial, options_for(Transport::automatic));
  expect_no_new_names(before);  // while it is in use, hence also after a kill
}

TEST(Window, TellsWhatIsMissingInDevShm) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  testing::SerialFor serial;
  struct statvfs fs = {};
  ASSERT_EQ(statvfs("/dev/shm", &fs), 0);
  auto options = options_for(Transport::shm);
  options.most_partials = static_cast<std::int64_t>(fs.f_blocks * fs.f_frsize / sizeof(double));
  const auto before = windows_in_shm();
  try {
    make_host_device_communicator(world(), serial, options);
    ADD_FAILURE() << "more than all of /dev/shm was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
    EXPECT_THAT(error.what(),
                ::testing::ContainsRegex("^/dev/shm has .* \\([0-9]+ bytes\\) free, and .* needs .* \\([0-9]+ "
                                         "bytes\\) \\(enlarge"));
  }
  expect_no_new_names(before);
}

TEST(Window, AutomaticFallsBackToMpi) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  testing::SerialFor serial;
  HostDeviceOverrides overrides;
  overrides.shm_free = 4096;
  const auto device = make_host_device_communicator(world(), serial, options_for(Transport::automatic), overrides);
  EXPECT_EQ(device->kind(), "mpi");
  EXPECT_THAT(std::string(device->note()), HasSubstr("/dev/shm has 4.00 KiB (4096 bytes) free"));
  EXPECT_TRUE(same_bits(reduce(*device, 1, 1000), reference(world().size(), 1, 1000)));
  EXPECT_THROW(make_host_device_communicator(world(), serial, options_for(Transport::shm), overrides), Error);
}

TEST(Window, SizeIsKnownBefore) {
  auto options = options_for(Transport::shm);
  const std::uint64_t a_rank =
      kMost * sizeof(double) + static_cast<std::uint64_t>(options.most_gathered) * sizeof(float);
  const std::uint64_t common = kMost * sizeof(float);
  const std::uint64_t least = 4 * a_rank + common;  // one buffer of partial sums a rank, the small ones twice
  EXPECT_GE(shared_window_bytes(4, options), least);
  EXPECT_LE(shared_window_bytes(4, options), least + 100'000);
  options.partials = DType::float32;
  EXPECT_LE(shared_window_bytes(4, options), least - 4 * kMost * sizeof(float) + 100'000);
  options.partials = DType::float64;
  if (world().size() != 4) return;
  testing::SerialFor serial;
  HostDeviceOverrides overrides;
  overrides.shm_free = shared_window_bytes(4, options) - 1;
  EXPECT_THROW(make_host_device_communicator(world(), serial, options, overrides), Error);
  ++*overrides.shm_free;
  EXPECT_NO_THROW(make_host_device_communicator(world(), serial, options, overrides));
}

TEST(Window, OneHostOnly) {
  if (world().size() == 1) GTEST_SKIP() << "needs two ranks";
  testing::SerialFor serial;
  HostDeviceOverrides overrides;
  for (int rank = 0; rank < world().size(); ++rank) overrides.hosts.push_back(rank % 2);
  try {
    make_host_device_communicator(world(), serial, options_for(Transport::shm), overrides);
    ADD_FAILURE() << "two hosts share memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
    EXPECT_THAT(error.what(), HasSubstr("run on 2 hosts"));
  }
}

/// A transport that goes wrong on one rank.
class Faulty final : public DeviceCommunicator {
 public:
  Faulty(DeviceCommunicator& device, bool reduce_wrong, bool gather_wrong)
      : device_(device), reduce_wrong_(reduce_wrong), gather_wrong_(gather_wrong) {}
  int rank() const noexcept override { return device_.rank(); }
  int size() const noexcept override { return device_.size(); }
  std::string_view kind() const noexcept override { return "faulty"; }
  Tensor partials(const Tensor& total) override { return device_.partials(total); }
  void reduce(const Tensor& partials, const Tensor& total) override {
    device_.reduce(partials, total);
    float& last = total.floats()[total.rows * total.cols - 1];
    if (reduce_wrong_) last = std::nextafter(last, 0.0f);
  }
  void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                      float* out) override {
    device_.gather_columns(local, rows, widths, out);
    if (gather_wrong_) std::swap(out[0], out[1]);
  }
  CommunicationStats stats() const override { return device_.stats(); }

 private:
  DeviceCommunicator& device_;
  bool reduce_wrong_, gather_wrong_;
};

TEST(SelfTest, NamesTheRankWithTheWrongResult) {
  testing::SerialFor serial;
  const auto options = options_for(Transport::automatic);
  const auto device = make_host_device_communicator(world(), serial, options);
  EXPECT_NO_THROW(self_test(world(), *device, options, host_copies()));
  const int last = world().size() - 1;
  const auto text = [&](bool reduce_wrong, bool gather_wrong) -> std::string {
    Faulty faulty(*device, reduce_wrong, gather_wrong);
    try {
      self_test(world(), faulty, options, host_copies());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::communication);
      return error.what();
    }
    return "nothing found";
  };
  EXPECT_THAT(text(world().rank() == last, false),
              HasSubstr(fmt::format("collective self-test failed on rank {}: wrong result of a reduce", last)));
  if (world().size() > 1) {  // alone, the known gather has no values
    EXPECT_THAT(text(false, world().rank() == 0), HasSubstr("failed on rank 0: wrong result of a gather"));
  }
}

}  // namespace
}  // namespace tpinfer
