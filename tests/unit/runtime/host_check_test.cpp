// The advice of `tpinfer info`: on a machine where all is well there is none, and each thing amiss is told once.
#include "runtime/host_check.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "runtime/rank_survey.hpp"

namespace tpinfer {
namespace {

MachineFacts good_machine() {
  MachineFacts facts;
  facts.cores_online = 8;
  facts.transparent_huge_pages = "madvise";
  facts.shm_total = facts.shm_free = std::uint64_t{8} << 30;
  facts.most_open_files = 1024;
  return facts;
}

// the plain kernels are there on every processor, so that they can play the best ones
HostUse good_use() {
  return {.forced_kernels = {}, .best = best_kernel_set(), .usable_cores = 8, .ranks = 2, .memory = {1 << 30, "Slurm"}};
}

std::vector<Advice> warnings(const std::vector<Advice>& all) {
  std::vector<Advice> bad;
  for (const Advice& advice : all) {
    EXPECT_EQ(advice.good, advice.hint.empty()) << advice.what;
    if (!advice.good) bad.push_back(advice);
  }
  return bad;
}

Advice only_warning(const MachineFacts& facts, const HostUse& use) {
  const auto bad = warnings(check_host(facts, use));
  EXPECT_EQ(bad.size(), 1U);
  return bad.empty() ? Advice{} : bad[0];
}

TEST(HostCheck, NothingIsAmiss) {
  if (best_kernel_set() == KernelSet::scalar) GTEST_SKIP() << "this processor has the plain kernels alone";
  EXPECT_TRUE(warnings(check_host(good_machine(), good_use())).empty());
}

TEST(HostCheck, EachFaultIsTold) {
  if (best_kernel_set() == KernelSet::scalar) GTEST_SKIP() << "this processor has the plain kernels alone";
  HostUse use = good_use();
  use.forced_kernels = "scalar";
  EXPECT_NE(only_warning(good_machine(), use).what.find("TPINFER_ISA holds the kernels at scalar"), std::string::npos);
  use.forced_kernels = "sse9";
  EXPECT_NE(only_warning(good_machine(), use).what.find("\"sse9\", which is no kernel set"), std::string::npos);

  MachineFacts facts = good_machine();
  facts.core_quota = 5;  // enough for two ranks
  EXPECT_TRUE(warnings(check_host(facts, good_use())).empty());
  facts.core_quota = 1.5;
  const Advice quota = only_warning(facts, good_use());
  EXPECT_NE(quota.what.find("allows that of 1.5: 2 ranks would hold each other up"), std::string::npos) << quota.what;

  facts = good_machine();
  facts.transparent_huge_pages = "never";
  EXPECT_NE(only_warning(facts, good_use()).hint.find("echo madvise"), std::string::npos);

  facts = good_machine();
  facts.shm_total = facts.shm_free = std::uint64_t{64} << 20;  // docker's default
  EXPECT_NE(only_warning(facts, good_use()).hint.find("--shm-size"), std::string::npos);
  facts.shm_total = 0;
  EXPECT_NE(only_warning(facts, good_use()).what.find("there is no /dev/shm"), std::string::npos);

  facts = good_machine();
  facts.most_address_space = 1 << 30;
  EXPECT_EQ(only_warning(facts, good_use()).hint, "ulimit -v unlimited");
  facts = good_machine();
  facts.most_open_files = 64;
  EXPECT_EQ(only_warning(facts, good_use()).hint, "ulimit -n 1024");
}

TEST(HostCheck, Gpus) {
  if (best_kernel_set() == KernelSet::scalar) GTEST_SKIP() << "this processor has the plain kernels alone";
  MachineFacts facts = good_machine();
  facts.gpu_driver = "570.86.15";
  HostUse use = good_use();
  use.cuda_reason = "this build has no CUDA backend";
  EXPECT_NE(only_warning(facts, use).hint.find("-DTPINFER_CUDA=ON"), std::string::npos);
  use.cuda = true;
  use.cuda_reason = "";
  use.cuda_visible_devices = "7";
  EXPECT_NE(only_warning(facts, use).hint.find("CUDA_VISIBLE_DEVICES is 7"), std::string::npos);
  use.gpus_seen = 2;
  EXPECT_TRUE(warnings(check_host(facts, use)).empty());
}

RankFacts a_rank(int rank, int host, std::vector<std::int32_t> cores) {
  RankFacts facts;
  facts.rank = rank;
  facts.host_number = host;
  facts.build = "tpinfer 1";
  facts.cores = std::move(cores);
  facts.cores_online = 8;
  facts.numa_nodes = 1;
  facts.kernel_set = "avx2";
  facts.seat.host = "h" + std::to_string(host);
  return facts;
}

std::vector<std::int32_t> cores(int from, int to) {
  std::vector<std::int32_t> list(static_cast<std::size_t>(to - from));
  std::iota(list.begin(), list.end(), from);
  return list;
}

Advice only_warning_of(const std::vector<RankFacts>& ranks, const std::string& launcher = "mpirun") {
  const auto bad = warnings(check_ranks(ranks, {.by_launcher = true, .words = launcher}));
  EXPECT_EQ(bad.size(), 1U);
  return bad.empty() ? Advice{} : bad[0];
}

TEST(RankCheck, Binding) {
  EXPECT_TRUE(warnings(check_ranks({a_rank(0, 0, cores(0, 8)), a_rank(1, 0, cores(0, 8))}, {true, "mpirun"})).empty());
  // Open MPI binds two ranks to a core each
  const std::vector<RankFacts> bound = {a_rank(0, 0, {0}), a_rank(1, 0, {1})};
  EXPECT_EQ(only_warning_of(bound).what, "the ranks on h0 may use 2 of 8 cores (0-1)");
  EXPECT_TRUE(warnings(check_ranks(bound, {true, "srun"})).empty());  // what Slurm gave is all there is
  const std::vector<RankFacts> crowded = {a_rank(0, 0, {0}), a_rank(1, 0, {0}), a_rank(2, 2, cores(0, 8))};
  EXPECT_EQ(only_warning_of(crowded).what, "2 ranks on h0 share 1 core");
}

TEST(RankCheck, NumaNodes) {
  std::vector<RankFacts> ranks = {a_rank(0, 0, cores(0, 8))};
  ranks[0].numa_nodes = 2;
  EXPECT_NE(only_warning_of(ranks).hint.find("--map-by ppr:1:numa"), std::string::npos);
  ranks = {a_rank(0, 0, cores(0, 4)), a_rank(1, 0, cores(4, 8))};
  for (RankFacts& rank : ranks) rank.numa_nodes = 2;
  EXPECT_TRUE(warnings(check_ranks(ranks, {true, "mpirun"})).empty());
}

TEST(RankCheck, RanksDiffer) {
  std::vector<RankFacts> ranks = {a_rank(0, 0, cores(0, 8)), a_rank(1, 1, cores(0, 8))};
  ranks[1].build = "tpinfer 2";
  EXPECT_EQ(only_warning_of(ranks).what, "rank 1 on h1 runs tpinfer 2, rank 0 tpinfer 1");
  ranks[1].build = ranks[0].build;
  ranks[1].kernel_set = "scalar";
  EXPECT_NE(only_warning_of(ranks).what.find("chooses the kernels scalar, rank 0 avx2"), std::string::npos);
}

TEST(RankCheck, Gpus) {
  std::vector<RankFacts> ranks = {a_rank(0, 0, cores(0, 8)), a_rank(1, 0, cores(0, 8))};
  ranks[0].seat.sees_gpu = true;
  ranks[1].seat.why_none = "CUDA sees no GPU";
  EXPECT_NE(only_warning_of(ranks).what.find("rank 1 on h0 has no GPU (CUDA sees no GPU)"), std::string::npos);
  ranks[1].seat.sees_gpu = true;
  for (RankFacts& rank : ranks) rank.seat.sharers = {0, 1};
  EXPECT_NE(only_warning_of(ranks).hint.find("parallel.share_gpus"), std::string::npos);
}

TEST(Launch, FromTheEnvironment) {
  const auto found = [](std::map<std::string, std::string> values) {
    return find_launch([values](const char* name) -> std::optional<std::string> {
      const auto at = values.find(name);
      return at == values.end() ? std::nullopt : std::optional(at->second);
    });
  };
  EXPECT_FALSE(found({}).by_launcher);
  EXPECT_EQ(found({{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}}).words, "mpirun");
  EXPECT_EQ(found({{"SLURM_STEP_ID", "0"}, {"PMIX_RANK", "1"}}).words, "srun");
  EXPECT_TRUE(found({{"SLURM_STEP_ID", "0"}, {"PMIX_RANK", "1"}}).by_launcher);
  // inside of sbatch, before any srun
  EXPECT_FALSE(found({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}).by_launcher);
  const Launch lonely = found({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_FALSE(lonely.by_launcher);
  EXPECT_EQ(lonely.lonely_tasks, 4);
  EXPECT_EQ(warnings(check_ranks({}, lonely)).size(), 1U);
  EXPECT_EQ(found({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}).lonely_tasks, 0);
}

}  // namespace
}  // namespace tpinfer
