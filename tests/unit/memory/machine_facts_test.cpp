// What the kernel tells of a machine, from folders that play its proc and sys.
#include "memory/machine_facts.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "memory/cores.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

class FakeMachine : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tpinfer_machine_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(FakeMachine, ProcessorAndNodes) {
  write("proc/cpuinfo",
        "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu avx2x avx2 avx512f avx512_bf16\n\n"
        "processor\t: 1\nmodel name\t: other\n");
  write("sys/devices/system/cpu/online", "0-3,8,10-11\n");
  write("sys/devices/system/node/node10/cpulist", "8-11\n");
  write("sys/devices/system/node/node10/meminfo", "Node 10 MemTotal:  2048 kB\nNode 10 MemFree:  1024 kB\n");
  write("sys/devices/system/node/node2/cpulist", "0-3\n");
  write("sys/devices/system/node/online", "2,10\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  write("proc/meminfo",
        "MemTotal: 1 kB\nHugePages_Total:       7\nHugePages_Free:        5\nHugepagesize:       2048 kB\n");
  write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Jan 1 2025\nGCC version:  12\n");
  const MachineFacts facts = read_machine_facts(root_);
  EXPECT_EQ(facts.processor, "AMD EPYC 9654");
  EXPECT_EQ(facts.features, (std::vector<std::string>{"avx2", "avx512f", "avx512_bf16"}));
  EXPECT_EQ(facts.cores_online, 7);
  EXPECT_FALSE(facts.core_quota);
  ASSERT_EQ(facts.numa_nodes.size(), 2U);
  EXPECT_EQ(facts.numa_nodes[0].number, 2);
  EXPECT_EQ(facts.numa_nodes[1].cores, "8-11");
  EXPECT_EQ(facts.numa_nodes[1].total, 2048U * 1024);
  EXPECT_EQ(facts.numa_nodes[1].free, 1024U * 1024);
  EXPECT_EQ(facts.transparent_huge_pages, "never");
  EXPECT_EQ(facts.huge_page_bytes, 2048U * 1024);
  EXPECT_EQ(facts.huge_pages, 7U);
  EXPECT_EQ(facts.huge_pages_free, 5U);
  EXPECT_EQ(facts.gpu_driver, "570.86.15");
  EXPECT_EQ(facts.shm_total, 0U);
}

TEST_F(FakeMachine, NothingIsKnown) {
  const MachineFacts facts = read_machine_facts(root_);
  EXPECT_EQ(facts.processor, "");
  EXPECT_TRUE(facts.features.empty());
  EXPECT_EQ(facts.cores_online, 0);
  EXPECT_EQ(facts.transparent_huge_pages, "");
  EXPECT_EQ(facts.gpu_driver, "");
}

TEST_F(FakeMachine, QuotaOfTheTightestGroup) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(read_machine_facts(root_).core_quota, 1.5);
  write("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(read_machine_facts(root_).core_quota, 0.5);
}

TEST_F(FakeMachine, QuotaOfVersion1) {
  write("proc/self/cgroup", "7:cpuset:/x\n4:cpu,cpuacct:/job\n");
  write("proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "32 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(read_machine_facts(root_).core_quota);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(read_machine_facts(root_).core_quota, 4.0);
}

TEST(ThisMachine, IsRead) {
  const MachineFacts facts = read_machine_facts();
  EXPECT_EQ(facts.cores_online, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  EXPECT_GT(facts.most_open_files, 0U);
  EXPECT_FALSE(allowed_cores().empty());
}

TEST(Cores, ThreadsOfARank) {
  EXPECT_EQ(threads_of_rank(8, 8, {}, 1), 8);
  EXPECT_EQ(threads_of_rank(8, 8, {}, 3), 2);
  EXPECT_EQ(threads_of_rank(4, 8, {}, 2), 4);  // bound: the cores are its own
  EXPECT_EQ(threads_of_rank(8, 8, {}, 20), 1);
  // docker run --cpus 2 on a large host
  EXPECT_EQ(threads_of_rank(64, 64, 2.0, 1), 2);
  EXPECT_EQ(threads_of_rank(64, 64, 2.5, 2), 1);
  EXPECT_EQ(threads_of_rank(4, 64, 6.0, 2), 3);  // bound to more than the group allows
  EXPECT_EQ(threads_of_rank(64, 64, 0.5, 1), 1);
}

TEST(Cores, List) {
  EXPECT_EQ(core_list({}), "");
  EXPECT_EQ(core_list({3}), "3");
  EXPECT_EQ(core_list({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

}  // namespace
}  // namespace tpinfer
