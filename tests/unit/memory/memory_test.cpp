#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "memory/cgroup_memory.hpp"
#include "memory/machine_memory.hpp"
#include "memory/proc_text.hpp"
#include "memory/process_memory.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMiB = 1024 * 1024;

// A folder that plays the kernel's proc and sys.
class FakeRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tpinfer_memory_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    write("proc/meminfo", "MemTotal:       24684084 kB\nMemFree:        23979972 kB\nMemAvailable:   1024 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

Environment environment_of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto at = values.find(name);
    return at == values.end() ? std::nullopt : std::optional(at->second);
  };
}

ExitCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  return ExitCode::ok;
}

TEST(ProcText, NumbersBehindWholeKeysOnly) {
  const std::string text = "total_inactive_file 7\ninactive_file 12\nVmRSSx: 3\nVmRSS:\t    1592 kB\nbad: x1\n";
  EXPECT_EQ(number_after(text, "inactive_file"), 12U);
  EXPECT_EQ(number_after(text, "total_inactive_file"), 7U);
  EXPECT_EQ(number_after(text, "VmRSS"), 1592U);
  EXPECT_EQ(number_after(text, "bad"), std::nullopt);
  EXPECT_EQ(number_after(text, "inactive"), std::nullopt);
  EXPECT_EQ(whole_number(" 42\n"), 42U);
  EXPECT_EQ(whole_number("max\n"), std::nullopt);
  EXPECT_EQ(whole_number("99999999999999999999"), std::nullopt);
  EXPECT_EQ(whole_number(""), std::nullopt);
}

TEST_F(FakeRoot, ProcessMemoryIsReadInBytes) {
  write("proc/self/status",
        "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t    50 kB\nVmRSS:\t    42 kB\nRssAnon:\t      12 kB\nRssFile:\t    20 "
        "kB\nRssShmem:\t       10 kB\n");
  const ProcessMemory memory = read_process_memory(root_ / "proc");
  EXPECT_EQ(memory.rss, 42 * 1024U);
  EXPECT_EQ(memory.rss_peak, 50 * 1024U);
  EXPECT_EQ(memory.anonymous, 12 * 1024U);
  EXPECT_EQ(memory.file_backed, 20 * 1024U);
  EXPECT_EQ(memory.shared, 10 * 1024U);
}

TEST_F(FakeRoot, MissingCountersAreToldNotGuessed) {
  EXPECT_EQ(code_of([&] { read_process_memory(root_ / "proc"); }), ExitCode::internal);
  write("proc/self/status", "VmHWM:\t50 kB\nVmRSS:\t42 kB\n");
  EXPECT_EQ(code_of([&] { read_process_memory(root_ / "proc"); }), ExitCode::internal);
  EXPECT_FALSE(read_counters(root_ / "proc").has_value());
  write("proc/self/io", "rchar: 6976\nwchar: 0\nread_bytes: 4096\n");
  EXPECT_EQ(read_counters(root_ / "proc")->rchar, 6976U);
  EXPECT_EQ(read_counters(root_ / "proc")->read_bytes, 4096U);
  write("proc/meminfo", "MemTotal: 5 kB\n");
  EXPECT_EQ(code_of([&] { read_machine_memory(root_ / "proc"); }), ExitCode::internal);
}

TEST(ProcessMemory, SeesWhatThisProcessAllocates) {
  constexpr std::size_t kBytes = 64 * kMiB;
  const ProcessMemory before = read_process_memory();
  void* own = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* common = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(own, MAP_FAILED);
  ASSERT_NE(common, MAP_FAILED);
  for (std::size_t i = 0; i < kBytes; i += 4096) {
    static_cast<volatile char*>(own)[i] = 1;
    static_cast<volatile char*>(common)[i] = 1;
  }
  const ProcessMemory with = read_process_memory();
  ::munmap(own, kBytes);
  ::munmap(common, kBytes);
  const ProcessMemory after = read_process_memory();
  EXPECT_NEAR(static_cast<double>(with.anonymous - before.anonymous), double{kBytes}, 4.0 * kMiB);
  EXPECT_NEAR(static_cast<double>(with.shared - before.shared), double{kBytes}, 4.0 * kMiB);
  EXPECT_LT(after.rss, with.rss - kBytes);
  EXPECT_GE(after.rss_peak + 4 * kMiB, with.rss);  // the peak stays
  EXPECT_EQ(with.rss, with.anonymous + with.file_backed + with.shared);
}

TEST(ReadCounters, CountWhatIsRead) {
  const auto before = read_counters();
  if (!before) GTEST_SKIP() << "/proc/self/io cannot be read here";
  const int fd = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  std::vector<char> buffer(3 * kMiB);
  ASSERT_EQ(::read(fd, buffer.data(), buffer.size()), static_cast<ssize_t>(buffer.size()));
  ::close(fd);
  const auto after = read_counters();
  EXPECT_GE(after->rchar - before->rchar, buffer.size());
  EXPECT_LT(after->rchar - before->rchar, buffer.size() + kMiB);
}

constexpr const char* kUnifiedMount =
    "22 1 0:5 / /proc rw - proc proc rw\n29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

TEST_F(FakeRoot, NoControlGroupNoLimit) {
  EXPECT_FALSE(read_cgroup_memory(root_).has_value());
  write("proc/self/cgroup", "0::/\n");
  EXPECT_FALSE(read_cgroup_memory(root_).has_value());
  write("proc/self/mountinfo", kUnifiedMount);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.high", "max\n");
  EXPECT_FALSE(read_cgroup_memory(root_).has_value());
}

TEST_F(FakeRoot, Version2TakesTheTightestGroupOnTheWayUp) {
  write("proc/self/mountinfo", kUnifiedMount);
  write("proc/self/cgroup", "0::/job/step/task\n");
  write("sys/fs/cgroup/job/memory.max", "1000000\n");
  write("sys/fs/cgroup/job/memory.current", "900000\n");
  write("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 200000\nactive_file 100000\n");
  write("sys/fs/cgroup/job/step/memory.max", "2000000\n");
  write("sys/fs/cgroup/job/step/memory.current", "100000\n");
  write("sys/fs/cgroup/job/step/task/memory.max", "max\n");
  auto limit = read_cgroup_memory(root_);
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->limit, 1000000U);
  EXPECT_EQ(limit->used, 600000U);  // less the file cache
  EXPECT_EQ(limit->room(), 400000U);
  EXPECT_EQ(limit->group, root_ / "sys/fs/cgroup/job");

  write("sys/fs/cgroup/job/step/memory.high", "350000\n");
  limit = read_cgroup_memory(root_);
  EXPECT_EQ(limit->room(), 250000U);
  EXPECT_EQ(limit->group, root_ / "sys/fs/cgroup/job/step");

  write("sys/fs/cgroup/job/step/memory.current", "360000\n");
  EXPECT_EQ(read_cgroup_memory(root_)->room(), 0U);  // and not a wrapped number
}

TEST_F(FakeRoot, Version1AndBothVersionsAtOnce) {
  write(
      "proc/self/mountinfo",
      "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup "
      "rw,cpu\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw "
      "- cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "4:memory:/slurm/job_7\n1:cpu:/elsewhere\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(read_cgroup_memory(root_).has_value());
  write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "8000000\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "3000000\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.stat",
        "inactive_file 1\ntotal_inactive_file 500000\ntotal_active_file 500000\n");
  const auto limit = read_cgroup_memory(root_);
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->limit, 8000000U);
  EXPECT_EQ(limit->used, 2000000U);
}

TEST_F(FakeRoot, ContainersSeePartOfTheHierarchy) {
  // the host's path in /proc/self/cgroup, the container's group as if it were the top
  write("proc/self/mountinfo", "35 31 0:32 /docker/ab12 /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  write("sys/fs/cgroup/memory.max", "5000\n");
  write("sys/fs/cgroup/memory.current", "1000\n");
  write("sys/fs/cgroup/inner/memory.max", "4000\n");
  write("sys/fs/cgroup/inner/memory.current", "500\n");
  for (const char* group : {"0::/docker/ab12\n", "0::/\n", "0::/../other\n", "0::/docker/ab12/gone\n"}) {
    write("proc/self/cgroup", group);
    const auto limit = read_cgroup_memory(root_);
    ASSERT_TRUE(limit.has_value()) << group;
    EXPECT_EQ(limit->room(), 4000U) << group;
  }
  write("proc/self/cgroup", "0::/docker/ab12/inner\n");
  EXPECT_EQ(read_cgroup_memory(root_)->room(), 3500U);
}

TEST_F(FakeRoot, UsableIsTheLeastOfAll) {
  const Environment none = environment_of({});
  EXPECT_EQ(usable_memory(root_, none), kMiB);  // MemAvailable
  EXPECT_EQ(find_usable_memory(root_, none).set_by, "available memory");

  const Environment slurm = environment_of({{"SLURM_MEM_PER_NODE", "1"}});
  EXPECT_EQ(usable_memory(root_, slurm), kMiB);
  write("proc/meminfo", "MemTotal: 8192 kB\nMemAvailable: 4096 kB\n");
  EXPECT_EQ(usable_memory(root_, slurm), kMiB);
  EXPECT_EQ(find_usable_memory(root_, slurm).set_by, "Slurm");

  write("proc/self/mountinfo", kUnifiedMount);
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "700000\n");
  EXPECT_EQ(usable_memory(root_, slurm), 700000U);
  EXPECT_NE(find_usable_memory(root_, slurm).set_by.find("control group"), std::string::npos);
}

TEST(Slurm, MemoryPerNodeOrPerCpu) {
  EXPECT_EQ(slurm_memory(environment_of({})), std::nullopt);
  EXPECT_EQ(slurm_memory(environment_of({{"SLURM_MEM_PER_NODE", "4096"}})), 4096 * kMiB);
  EXPECT_EQ(slurm_memory(environment_of({{"SLURM_MEM_PER_CPU", "512"}, {"SLURM_CPUS_ON_NODE", "6"}})), 3072 * kMiB);
  EXPECT_EQ(slurm_memory(environment_of({{"SLURM_MEM_PER_CPU", "512"}})), std::nullopt);
  EXPECT_EQ(slurm_memory(environment_of({{"SLURM_MEM_PER_NODE", "0"}})), std::nullopt);  // the whole node
  for (const char* bad : {"4G", "-1", "1e3", "99999999999999999999"})
    EXPECT_EQ(code_of([&] { slurm_memory(environment_of({{"SLURM_MEM_PER_NODE", bad}})); }), ExitCode::usage) << bad;
}

TEST(FairShare, WholePagesForEachRank) {
  EXPECT_EQ(fair_share(12 * kMiB, 3), 4 * kMiB);
  EXPECT_EQ(fair_share(10000, 2), 4096U);
  EXPECT_EQ(fair_share(0, 4), 0U);
  EXPECT_EQ(code_of([] { fair_share(1, 0); }), ExitCode::internal);
}

TEST(Machine, ThisOneHasMemory) {
  const MachineMemory machine = read_machine_memory();
  EXPECT_GT(machine.available, 16 * kMiB);
  EXPECT_LE(machine.available, machine.total);
  const std::uint64_t usable = usable_memory("/", environment_of({}));
  EXPECT_GT(usable, 0U);
  EXPECT_LE(usable, machine.total);
}

}  // namespace
}  // namespace tpinfer
