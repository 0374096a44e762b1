#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "runtime/scheduler.hpp"

namespace tpinfer {

using History = std::uint64_t;  // of a position: hash of all tokens up to it; what K and V depend on

inline History extend(History before, std::int32_t token) {
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
inline std::int32_t answer(std::size_t job, History history) {
  return static_cast<std::int32_t>((history + job * 31) % 5);
}

// Runs jobs through a scheduler against a cache that remembers which history each slot was written with. Each step is
// foreseen where it can be; a twin, which foresees nothing, must make the same steps.
class Drive {
 public:
  Drive(const SchedulerLimits& limits, std::vector<Job> jobs)
      : limits_(limits),
        jobs_(std::move(jobs)),
        scheduler_(limits),
        twin_(limits),
        tokens_(jobs_.size()),
        logits_(jobs_.size()),
        cache_(static_cast<std::size_t>(limits.blocks * limits.block_size), 0) {}

  void add(std::size_t count) {
    for (; count > 0 && added_ < jobs_.size(); --count, ++added_) {
      const Job& job = jobs_[added_];
      const auto prompt = static_cast<std::int64_t>(job.prompt.size());
      tokens_[added_] = job.prompt;
      Sequence sequence{.index = static_cast<std::int64_t>(added_),
                        .tokens = job.prompt,
                        .prompt_tokens = prompt,
                        .most_tokens = job.most,
                        .next_logit = job.score ? 0 : prompt - 1,
                        .prompt = job.sample_of,
                        .blocks = {}};
      twin_.add(sequence);
      scheduler_.add(std::move(sequence));
    }
  }

  bool step() {
    const bool more = scheduler_.next(step_, rows_, &foreseen_);
    EXPECT_EQ(twin_.next(plain_, plain_rows_), more);
    if (!more) {
      EXPECT_EQ(scheduler_.waiting() + scheduler_.running(), 0);
      EXPECT_EQ(scheduler_.blocks_used(), 0) << "blocks leak";
      return false;
    }
    ++steps_;
    for (const auto part : {&Drive::check_twin, &Drive::check_limits, &Drive::run_step, &Drive::check_users,
                            &Drive::foresee, &Drive::take_logits}) {
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
  std::int64_t late() const { return late_; }
  std::int64_t wrong() const { return wrong_; }
  std::int64_t left_out() const { return left_out_; }
  const std::vector<std::size_t>& finished() const { return finished_order_; }

 private:
  // The step of foreseen_ with the tokens that came for it, without the rows that are left out.
  void complete() {
    const Step& early = foreseen_.step;
    const std::vector<std::int32_t> tokens = step_.tokens;
    const auto width = static_cast<std::size_t>(early.table_width);
    ASSERT_EQ(tokens.size(), early.tokens.size());
    ASSERT_EQ(rows_.size(), tokens.size());
    ASSERT_EQ(early.block_table.size(), tokens.size() * width);
    step_.clear();
    step_.table_width = plain_.table_width;
    std::erase_if(rows_, [](const LogitRow& row) { return row.sequence < 0; });
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      ASSERT_EQ(early.logit_rows[r], static_cast<std::int32_t>(r));
      ASSERT_EQ(early.row_begin[r + 1], static_cast<std::int32_t>(r + 1));
      if (tokens[r] < 0) {
        ++left_out_;
        continue;
      }
      step_.logit_rows.push_back(static_cast<std::int32_t>(step_.rows()));
      step_.tokens.push_back(tokens[r]);
      step_.positions.push_back(early.positions[r]);
      step_.slots.push_back(early.slots[r]);
      step_.row_begin.push_back(static_cast<std::int32_t>(step_.rows()));
      for (std::size_t b = 0; b < width; ++b)
        if (b < static_cast<std::size_t>(plain_.table_width))
          step_.block_table.push_back(early.block_table[r * width + b]);
        else
          ASSERT_EQ(early.block_table[r * width + b], -1);
    }
    ASSERT_GE(step_.rows(), foreseen_.fewest);
  }

  void check_twin() {
    wrong_ += foreseen_.ready && step_.part == StepPart::whole ? 1 : 0;
    if (step_.part == StepPart::late) {
      ++late_;
      ASSERT_TRUE(foreseen_.ready);
      complete();
    }
    ASSERT_EQ(step_.tokens, plain_.tokens);
    ASSERT_EQ(step_.positions, plain_.positions);
    ASSERT_EQ(step_.slots, plain_.slots);
    ASSERT_EQ(step_.row_begin, plain_.row_begin);
    ASSERT_EQ(step_.block_table, plain_.block_table);
    ASSERT_EQ(step_.block_copies, plain_.block_copies);
    ASSERT_EQ(step_.logit_rows, plain_.logit_rows);
    ASSERT_EQ(rows_.size(), plain_rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      ASSERT_EQ(rows_[i].sequence, plain_rows_[i].sequence);
      ASSERT_EQ(rows_[i].position, plain_rows_[i].position);
    }
  }

  void foresee() {
    scheduler_.foresee(foreseen_);
    if (foreseen_.ready && steps_ % 3 > 0) foreseen_.fewest = 1;
  }

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
        twin_.finish(rows_[i].sequence);
        finished_.insert(job);
        finished_order_.push_back(job);
        continue;
      }
      History history = 0;
      for (const std::int32_t token : tokens_[job]) history = extend(history, token);
      tokens_[job].push_back(answer(job, history));
      scheduler_.append(rows_[i].sequence, tokens_[job].back());
      twin_.append(rows_[i].sequence, tokens_[job].back());
    }
  }

  SchedulerLimits limits_;
  std::vector<Job> jobs_;
  Scheduler scheduler_, twin_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<std::map<std::int64_t, int>> logits_;  // how often the logits of a position were asked for
  std::vector<History> cache_;
  std::set<std::size_t> finished_;
  std::vector<std::size_t> finished_order_;
  std::size_t added_ = 0;
  Step step_, plain_;
  std::vector<LogitRow> rows_, plain_rows_;
  Foresight foreseen_;
  std::int64_t late_ = 0, wrong_ = 0, left_out_ = 0;  // steps that were foreseen, rightly and not; rows
  std::int64_t rows_total_ = 0, most_blocks_ = 0, steps_ = 0;
};

}  // namespace tpinfer
