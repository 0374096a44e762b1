// Which GPUs the ranks of a job take under every way to show them GPUs, on emulated ones. Four ranks.
#include "runtime/gpu_choice.hpp"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <emulation/control.hpp>

#include "core/error.hpp"
#include "mpi_test.hpp"

namespace tpinfer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::world;

class GpuChoiceTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "TPINFER_EMULATION_DEVICES", "TPINFER_EMULATION_FAIL"})
      unsetenv(name);
    cuda_emulation::reset();
  }
  /// What this rank is shown: null leaves a variable unset.
  static GpuChoice choose(const std::string& gpus, const char* visible, const char* cgroup = nullptr) {
    setenv("TPINFER_EMULATION_GPUS", gpus.c_str(), 1);
    for (const auto& [name, value] :
         {std::pair{"CUDA_VISIBLE_DEVICES", visible}, std::pair{"TPINFER_EMULATION_DEVICES", cgroup}})
      if (value)
        setenv(name, value, 1);
      else
        unsetenv(name);
    cuda_emulation::reset();
    return GpuChoice::survey(world());
  }
  static std::vector<std::string> buses(const GpuChoice& choice) {
    std::vector<std::string> text;
    for (const GpuSeat& seat : choice.seats()) text.push_back(seat.sees_gpu ? seat.gpu.pci.substr(5, 2) : "");
    return text;
  }
  static std::string refusal(const GpuChoice& choice, const ParallelJob& parallel) {
    try {
      choice.decide(parallel);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return {};
  }
  static ParallelJob on(Device device, bool share_gpus = false) {
    ParallelJob parallel;
    parallel.device = device;
    parallel.share_gpus = share_gpus;
    return parallel;
  }
  static std::string own(std::vector<std::string> of_each) { return of_each[static_cast<std::size_t>(world().rank())]; }
};

TEST_F(GpuChoiceTest, EveryVisibilitySettingGivesEachRankItsOwn) {
  EXPECT_THAT(buses(choose("64MiB*5", "0,1,3,4")), ElementsAre("10", "20", "40", "50"));
  EXPECT_THAT(buses(choose("64MiB*4", nullptr)), ElementsAre("10", "20", "30", "40"));
  // one each: every rank sees its own as number 0
  const std::string mine = own({"3", "1", "0", "2"});
  EXPECT_THAT(buses(choose("64MiB*4", "0", mine.c_str())), ElementsAre("40", "20", "10", "30"));
  EXPECT_THAT(buses(choose("64MiB*4", mine.c_str())), ElementsAre("40", "20", "10", "30"));
  // two each of eight, and of four
  EXPECT_THAT(buses(choose("64MiB*8", own({"0,1", "2,3", "4,5", "6,7"}).c_str())), ElementsAre("10", "30", "50", "70"));
  const GpuChoice crossing = choose("64MiB*4", own({"0,1", "1,2", "2,3", "0,3"}).c_str());
  EXPECT_FALSE(crossing.shared());
  EXPECT_TRUE(crossing.decide({}));
  EXPECT_EQ(crossing.seat(0).gpu.name, "Emulated GPU");
  EXPECT_EQ(crossing.seat(0).gpu.index, 0);
}

TEST_F(GpuChoiceTest, UuidsNameGpus) {
  const GpuChoice all = choose("64MiB*5", nullptr);
  const GpuChoice named = choose(
      "64MiB*5", own({all.seat(3).gpu.uuid, all.seat(2).gpu.uuid, all.seat(1).gpu.uuid, all.seat(0).gpu.uuid}).c_str());
  EXPECT_THAT(buses(named), ElementsAre("40", "30", "20", "10"));
  EXPECT_EQ(named.seat(1).gpu.uuid, all.seat(2).gpu.uuid);
}

TEST_F(GpuChoiceTest, SharingIsFoundByUuidAndRefusedUnlessAskedFor) {
  // each rank sees one GPU as its number 0, yet two of them are the same
  const GpuChoice choice = choose("1GiB,used=100MiB;2GiB;1GiB", own({"0", "1", "2", "1"}).c_str());
  EXPECT_TRUE(choice.shared());
  const std::string text = refusal(choice, {});
  EXPECT_THAT(text, HasSubstr("ranks 1 and 3 on "));
  EXPECT_THAT(text, HasSubstr("would share one GPU, " + choice.seat(1).gpu.uuid));
  EXPECT_THAT(text, HasSubstr("parallel.share_gpus: true"));
  EXPECT_TRUE(choice.decide(on(Device::automatic, true)));
  const std::uint64_t gib = std::uint64_t{1} << 30;
  EXPECT_THAT(choice.budgets(0.5), ElementsAre(gib / 2 - (100 << 20), gib / 2, gib / 2, gib / 2));
  EXPECT_EQ(choice.seat(3).sharers, (std::vector<int>{1, 3}));
}

TEST_F(GpuChoiceTest, BudgetsFollowTheFreeMemoryOfEachGpu) {
  const GpuChoice choice = choose("80GiB;24GiB,used=2GiB;16GiB,used=15GiB;40GiB", nullptr);
  const std::uint64_t gib = std::uint64_t{1} << 30;
  const auto part = [&](double share) { return static_cast<std::uint64_t>(share * static_cast<double>(gib)); };
  EXPECT_THAT(choice.budgets(0.75), ElementsAre(60 * gib, 16 * gib, 0, 30 * gib));
  EXPECT_THAT(choice.budgets(1.0), ElementsAre(80 * gib, 22 * gib, part(1), 40 * gib));
}

TEST_F(GpuChoiceTest, ARankWithoutAGpu) {
  const GpuChoice choice = choose("64MiB*4", own({"0", "", "2", "9"}).c_str());
  EXPECT_FALSE(choice.decide({}));  // auto: all on the CPU
  const std::string text = refusal(choice, on(Device::cuda));
  EXPECT_THAT(text, HasSubstr("rank 1 on "));
  EXPECT_THAT(text, HasSubstr("no GPU"));
  EXPECT_FALSE(choice.decide(on(Device::cpu)));
}

TEST_F(GpuChoiceTest, WithoutTheManagementLibraryCudaTellsFreeMemory) {
  const std::string gpus = "2GiB,used=1GiB,context=128MiB;2GiB;2GiB;2GiB";
  EXPECT_EQ(choose(gpus, nullptr).seat(0).gpu.free_bytes, std::uint64_t{1} << 30);
  setenv("TPINFER_EMULATION_FAIL", "nvmlInit#1=missing", 1);
  const GpuChoice choice = choose(gpus, nullptr);
  EXPECT_EQ(choice.seat(0).gpu.free_bytes, (std::uint64_t{1} << 30) - (128 << 20));
}

TEST_F(GpuChoiceTest, NodesAreKnown) {
  const GpuChoice choice = choose("64MiB,numa=0;64MiB,numa=0;64MiB,numa=1;64MiB", nullptr);
  EXPECT_EQ(choice.seat(2).gpu.numa_node, 1);
  EXPECT_EQ(choice.seat(3).gpu.numa_node, -1);
  EXPECT_EQ(choice.seat(0).neighbours, 2);
  EXPECT_EQ(choice.seat(2).neighbours, 1);
}

}  // namespace
}  // namespace tpinfer
