#include "runtime/scheduler.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "core/error.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

using History = std::uint64_t;  // of a position: hash of all tokens up to it; what K and V depend on

History extend(History before, std::int32_t token) {
  return (before ^ static_cast<History>(token + 7)) * 0x100000001b3U + 1;
}

struct Job {
  std::vector<std::int32_t> prompt;
  std::int64_t new_tokens = 1;  // really generated
  std::int64_t most = 0;        // what the scheduler is told, >= prompt + new_tokens
  bool score = false;           // all logits of the prompt are wanted
  std::int64_t sample_of = -1;
};

// The token that a sequence answers with at some position: a function of its history and its number alone.
std::int32_t answer(std::size_t job, History history) { return static_cast<std::int32_t>((history + job * 31) % 5); }

// Runs jobs through a scheduler against a cache that remembers which history each slot was written with.
class Drive {
 public:
  Drive(const SchedulerLimits& limits, std::vector<Job> jobs)
      : limits_(limits),
        jobs_(std::move(jobs)),
        scheduler_(limits),
        tokens_(jobs_.size()),
        logits_(jobs_.size()),
        cache_(static_cast<std::size_t>(limits.blocks * limits.block_size), 0) {}

  void add(std::size_t count) {
    for (; count > 0 && added_ < jobs_.size(); --count, ++added_) {
      const Job& job = jobs_[added_];
      const auto prompt = static_cast<std::int64_t>(job.prompt.size());
      tokens_[added_] = job.prompt;
      scheduler_.add({.index = static_cast<std::int64_t>(added_),
                      .tokens = job.prompt,
                      .prompt_tokens = prompt,
                      .most_tokens = job.most,
                      .next_logit = job.score ? 0 : prompt - 1,
                      .prompt = job.sample_of,
                      .blocks = {}});
    }
  }

  bool step() {
    if (!scheduler_.next(step_, rows_)) {
      EXPECT_EQ(scheduler_.waiting() + scheduler_.running(), 0);
      EXPECT_EQ(scheduler_.blocks_used(), 0) << "blocks leak";
      return false;
    }
    ++steps_;
    for (const auto part : {&Drive::check_limits, &Drive::run_step, &Drive::check_users, &Drive::take_logits}) {
      (this->*part)();
      if (testing::Test::HasFatalFailure()) return false;
    }
    return true;
  }

  void run_all() {
    add(jobs_.size());
    while (step()) ASSERT_LT(steps_, 200000);
  }

  void expect_all_finished() const {
    ASSERT_EQ(finished_.size(), jobs_.size());
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      const auto prompt = static_cast<std::int64_t>(jobs_[j].prompt.size());
      std::map<std::int64_t, int> wanted;
      for (std::int64_t p = jobs_[j].score ? 0 : prompt - 1; p < prompt + jobs_[j].new_tokens - 1; ++p) wanted[p] = 1;
      EXPECT_EQ(logits_[j], wanted) << "logits of job " << j << " were asked for twice or never";
    }
  }
  const SchedulerCounts& counts() const { return scheduler_.counts(); }
  std::int64_t rows() const { return rows_total_; }
  std::int64_t most_blocks() const { return most_blocks_; }
  std::int64_t steps() const { return steps_; }
  const std::vector<std::size_t>& finished() const { return finished_order_; }

 private:
  void check_limits() {
    ASSERT_GT(step_.rows(), 0);
    ASSERT_LE(step_.rows(), limits_.max_rows);
    ASSERT_LE(scheduler_.running(), limits_.max_sequences);
    ASSERT_EQ(scheduler_.running() + scheduler_.waiting() + static_cast<std::int64_t>(finished_.size()),
              static_cast<std::int64_t>(added_));
    rows_total_ += step_.rows();
    most_blocks_ = std::max(most_blocks_, scheduler_.blocks_used());
  }

  // The job of a sequence of the step, told by its logit rows or by its tokens: the scheduler does not say it for all.
  std::size_t job_of(std::size_t s) {
    const auto* table = step_.block_table.data() + s * static_cast<std::size_t>(step_.table_width);
    for (const LogitRow& row : rows_) {
      const auto i = static_cast<std::size_t>(&row - rows_.data());
      const std::int32_t at = step_.logit_rows[i];
      if (at >= step_.row_begin[s] && at < step_.row_begin[s + 1]) return static_cast<std::size_t>(row.sequence);
    }
    (void)table;
    return jobs_.size();
  }

  // Copies, then writes of all rows, then reads of all rows, as every layer does.
  void run_step() {
    const auto size = limits_.block_size;
    for (std::size_t i = 0; i + 1 < step_.block_copies.size(); i += 2)
      std::copy_n(cache_.begin() + step_.block_copies[i] * size, size,
                  cache_.begin() + step_.block_copies[i + 1] * size);
    std::set<std::int32_t> written;
    for (std::size_t s = 0; s < static_cast<std::size_t>(step_.sequences()); ++s) {
      const auto* table = step_.block_table.data() + s * static_cast<std::size_t>(step_.table_width);
      for (auto r = static_cast<std::size_t>(step_.row_begin[s]); r < static_cast<std::size_t>(step_.row_begin[s + 1]);
           ++r) {
        const std::int64_t position = step_.positions[r];
        ASSERT_EQ(step_.slots[r], table[position / size] * size + position % size);
        ASSERT_TRUE(written.insert(step_.slots[r]).second) << "two rows write to one slot";
        const History before = position == 0 ? 0 : history_at(table, position - 1);
        cache_[static_cast<std::size_t>(step_.slots[r])] = extend(before, step_.tokens[r]);
      }
    }
    for (std::size_t s = 0; s < static_cast<std::size_t>(step_.sequences()); ++s) check_reads(s);
  }

  History history_at(const std::int32_t* table, std::int64_t position) const {
    const std::int32_t block = table[position / limits_.block_size];
    return block < 0 ? 0 : cache_[static_cast<std::size_t>(block * limits_.block_size + position % limits_.block_size)];
  }

  // Every position that the sequence's last row can see holds the history of this very sequence.
  void check_reads(std::size_t s) {
    const std::size_t job = job_of(s);
    if (job == jobs_.size()) return;  // a chunk in the middle of a prompt: its last one will be checked
    const auto* table = step_.block_table.data() + s * static_cast<std::size_t>(step_.table_width);
    const std::int64_t first = step_.positions[static_cast<std::size_t>(step_.row_begin[s])];
    const std::int64_t last = step_.positions[static_cast<std::size_t>(step_.row_begin[s + 1]) - 1];
    const std::int64_t seen = limits_.window > 0 ? std::max<std::int64_t>(0, first + 1 - limits_.window) : 0;
    History history = 0;
    for (std::int64_t p = 0; p <= last; ++p) {
      history = extend(history, tokens_[job][static_cast<std::size_t>(p)]);
      if (p < seen) continue;
      ASSERT_GE(table[p / limits_.block_size], 0) << "a block inside the window was given back";
      ASSERT_EQ(history_at(table, p), history) << "job " << job << " reads another one's K and V at " << p;
    }
  }

  // What the tables of this step hold is counted as in use, at least as often.
  void check_users() {
    std::map<std::int32_t, std::int32_t> users;
    for (const std::int32_t block : step_.block_table)
      if (block >= 0) ++users[block];
    for (const auto& [block, count] : users) ASSERT_GE(scheduler_.blocks().users(block), count);
    std::int64_t used = 0;
    for (std::int32_t b = 0; b < limits_.blocks; ++b) used += scheduler_.blocks().users(b) > 0 ? 1 : 0;
    ASSERT_EQ(used, scheduler_.blocks_used());
  }

  void take_logits() {
    ASSERT_EQ(rows_.size(), step_.logit_rows.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto job = static_cast<std::size_t>(rows_[i].sequence);
      const std::int64_t position = rows_[i].position;
      ASSERT_EQ(step_.positions[static_cast<std::size_t>(step_.logit_rows[i])], position);
      ++logits_[job][position];
      const auto prompt = static_cast<std::int64_t>(jobs_[job].prompt.size());
      if (position + 1 < prompt) continue;
      ASSERT_EQ(position + 1, static_cast<std::int64_t>(tokens_[job].size()));
      if (position + 1 - prompt + 1 == jobs_[job].new_tokens) {
        scheduler_.finish(rows_[i].sequence);
        finished_.insert(job);
        finished_order_.push_back(job);
        continue;
      }
      History history = 0;
      for (const std::int32_t token : tokens_[job]) history = extend(history, token);
      tokens_[job].push_back(answer(job, history));
      scheduler_.append(rows_[i].sequence, tokens_[job].back());
    }
  }

  SchedulerLimits limits_;
  std::vector<Job> jobs_;
  Scheduler scheduler_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<std::map<std::int64_t, int>> logits_;  // how often the logits of a position were asked for
  std::vector<History> cache_;
  std::set<std::size_t> finished_;
  std::vector<std::size_t> finished_order_;
  std::size_t added_ = 0;
  Step step_;
  std::vector<LogitRow> rows_;
  std::int64_t rows_total_ = 0, most_blocks_ = 0, steps_ = 0;
};

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
  std::int64_t preemptions = 0, shared = 0;
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
  }
  EXPECT_GT(preemptions, 500);
  EXPECT_GT(shared, 5000);
}

}  // namespace
}  // namespace tpinfer
