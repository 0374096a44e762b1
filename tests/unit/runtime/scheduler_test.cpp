#include <gtest/gtest.h>

#include <random>

#include "core/error.hpp"
#include "core/exact_sum.hpp"
#include "scheduler_drive.hpp"

namespace tpinfer {
namespace {

std::vector<std::int32_t> prompt_of(std::int64_t length, std::int32_t salt) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t p = 0; p < length; ++p)
    tokens.push_back(static_cast<std::int32_t>((p * 7 + salt * 1000003) % 9973));
  return tokens;
}

Job job_of(std::int64_t prompt, std::int64_t new_tokens, std::int32_t salt) {
  return {.prompt = prompt_of(prompt, salt), .new_tokens = new_tokens, .most = prompt + new_tokens};
}

TEST(Scheduler, PromptsAreComputedInChunksBesideDecodes) {
  std::vector<Job> jobs = {job_of(4, 12, 1), job_of(40, 2, 2)};
  Drive drive({.max_sequences = 4, .max_rows = 8, .block_size = 16, .blocks = 16}, jobs);
  drive.run_all();
  drive.expect_all_finished();
  EXPECT_EQ(drive.rows(), 4 + 11 + 40 + 1);  // nothing is computed twice; the last token needs no row
  EXPECT_LE(drive.steps(), 12);              // the long prompt goes beside the short one's decodes
  EXPECT_GE(drive.late(), 3);                // all that follow on its last part
  EXPECT_EQ(drive.wrong(), 0);
}

TEST(Scheduler, PreemptionWhenBlocksRunOutLosesNothing) {
  std::vector<Job> jobs;
  for (std::int32_t j = 0; j < 60; ++j) jobs.push_back(job_of(5 + j % 23, 40 + j % 17, j));
  Drive drive({.max_sequences = 16, .max_rows = 64, .block_size = 16, .blocks = 9, .prefix_sharing = false}, jobs);
  drive.run_all();
  drive.expect_all_finished();
  EXPECT_GT(drive.counts().preemptions, 20);
  EXPECT_EQ(drive.counts().shared_tokens, 0);
}

TEST(Scheduler, SharedPrefixIsComputedOnce) {
  std::vector<Job> jobs;
  for (std::int32_t j = 0; j < 20; ++j) {
    jobs.push_back({.prompt = prompt_of(100, 1), .new_tokens = 3, .most = 0});
    for (const std::int32_t token : prompt_of(10, 50 + j)) jobs.back().prompt.push_back(token);
    jobs.back().most = 113;
  }
  Drive drive({.max_sequences = 32, .max_rows = 64, .block_size = 16, .blocks = 100}, jobs);
  drive.run_all();
  drive.expect_all_finished();
  // six full blocks once; the 4 tokens of the seventh may be computed again by those that start in the same step
  EXPECT_GE(drive.counts().shared_tokens, 19 * 96);
  EXPECT_LE(drive.rows(), 100 + 20 * (10 + 2) + 19 * 4);
  EXPECT_EQ(drive.rows() + drive.counts().shared_tokens, 20 * (110 + 2));
}

TEST(Scheduler, PartlyEqualBlockIsCopied) {
  std::vector<Job> jobs = {job_of(30, 20, 1), job_of(30, 2, 1)};
  jobs[1].prompt.push_back(77);
  jobs[1].most += 1;
  Drive drive({.max_sequences = 2, .max_rows = 64, .block_size = 16, .blocks = 16}, jobs);
  drive.add(1);
  ASSERT_TRUE(drive.step());
  drive.add(1);
  while (drive.step()) {
  }
  drive.expect_all_finished();
  EXPECT_EQ(drive.counts().shared_tokens, 30);
}

TEST(Scheduler, SamplesOfOnePromptComputeItOnce) {
  std::vector<Job> jobs(8, {.prompt = prompt_of(21, 3), .new_tokens = 6, .most = 27, .sample_of = 5});
  Drive drive({.max_sequences = 8, .max_rows = 64, .block_size = 16, .blocks = 32}, jobs);
  drive.run_all();
  drive.expect_all_finished();
  EXPECT_EQ(drive.counts().shared_tokens, 7 * 20);  // all but the last token, whose logits each one needs
}

TEST(Scheduler, ScoredPromptsAreComputedInFull) {
  std::vector<Job> jobs(3, {.prompt = prompt_of(40, 3), .new_tokens = 2, .most = 42, .score = true});
  Drive drive({.max_sequences = 1, .max_rows = 64, .block_size = 16, .blocks = 32}, jobs);
  drive.run_all();
  drive.expect_all_finished();
  EXPECT_EQ(drive.counts().shared_tokens, 0);
}

TEST(Scheduler, FinishedSequencesLeaveTheirPrefixBehind) {
  std::vector<Job> jobs(5, {.prompt = prompt_of(64, 3), .new_tokens = 2, .most = 66});
  Drive drive({.max_sequences = 1, .max_rows = 128, .block_size = 16, .blocks = 6}, jobs);
  drive.run_all();
  drive.expect_all_finished();
  EXPECT_EQ(drive.counts().shared_tokens, 4 * 63);
}

TEST(Scheduler, BlocksOutsideTheWindowAreGivenBack) {
  std::vector<Job> jobs = {job_of(2000, 600, 1)};
  const SchedulerLimits limits{.max_sequences = 1, .max_rows = 64, .block_size = 16, .blocks = 40, .window = 100};
  EXPECT_TRUE(Scheduler(limits).fits(2600));
  Drive drive(limits, jobs);
  drive.run_all();
  drive.expect_all_finished();
  EXPECT_LE(drive.most_blocks(), (100 + kAttentionBlock) / 16 + 2 + 64 / 16);
  SchedulerLimits all = limits;
  all.window = 0;
  EXPECT_FALSE(Scheduler(all).fits(2600));
}

TEST(Scheduler, SequenceLargerThanTheCacheIsAFaultOfTheCaller) {
  Scheduler scheduler({.blocks = 2});
  EXPECT_THROW(scheduler.add({.tokens = {1}, .prompt_tokens = 1, .most_tokens = 33, .blocks = {}}), Error);
  EXPECT_THROW(scheduler.finish(3), Error);
}

// Jobs that share beginnings of all lengths, sizes of all kinds, sequences that come while others run.
TEST(Scheduler, RandomJobsAgainstAModelOfTheCache) {
  std::int64_t preemptions = 0, shared = 0, late = 0, wrong = 0, left_out = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(high - low + 1));
    };
    SchedulerLimits limits{.max_sequences = pick(1, 12), .max_rows = pick(1, 90), .block_size = pick(0, 3) ? 16 : 32};
    limits.window = pick(0, 2) ? 0 : pick(1, 300);
    limits.prefix_sharing = pick(0, 4) > 0;
    std::vector<Job> jobs;
    std::int64_t longest = 1;
    for (std::int64_t count = pick(1, 40); count > 0; --count) {
      Job job;
      job.new_tokens = pick(1, 60);
      job.score = pick(0, 5) == 0;
      if (!jobs.empty() && pick(0, 3) > 0) {  // goes on from a part of an earlier one
        const auto& other = jobs[static_cast<std::size_t>(pick(0, std::ssize(jobs) - 1))].prompt;
        job.prompt.assign(other.begin(), other.begin() + pick(0, std::ssize(other)));
      }
      for (std::int64_t more = pick(job.prompt.empty() ? 1 : 0, 70); more > 0; --more)
        job.prompt.push_back(static_cast<std::int32_t>(pick(0, 4)));
      job.most = std::ssize(job.prompt) + job.new_tokens + pick(0, 20);
      longest = std::max(longest, blocks_at_once(job.most, limits.block_size, limits.window));
      jobs.push_back(std::move(job));
      for (std::int64_t samples = pick(0, 8) ? 0 : pick(1, 4); samples > 0; --samples) {
        jobs.back().sample_of = std::ssize(jobs);
        jobs.push_back(jobs.back());
      }
    }
    limits.blocks = longest + pick(0, 2) * pick(0, 30);
    Drive drive(limits, jobs);
    drive.add(static_cast<std::size_t>(pick(1, 10)));
    while (drive.step() || std::ssize(drive.finished()) < std::ssize(jobs)) {
      if (HasFatalFailure()) FAIL() << "seed " << seed;
      drive.add(static_cast<std::size_t>(pick(0, 2)));
      ASSERT_LT(drive.steps(), 100000) << "seed " << seed;
    }
    drive.expect_all_finished();
    if (HasFailure()) FAIL() << "seed " << seed;
    preemptions += drive.counts().preemptions;
    shared += drive.counts().shared_tokens;
    late += drive.late();
    wrong += drive.wrong();
    left_out += drive.left_out();
  }
  EXPECT_GT(preemptions, 500);
  EXPECT_GT(shared, 5000);
  fmt::print("{} steps were foreseen rightly, {} wrongly; {} rows left out\n", late, wrong, left_out);
  EXPECT_GT(late, 5000);
  EXPECT_GT(wrong, 100);
  EXPECT_GT(left_out, 100);
}

}  // namespace
}  // namespace tpinfer
