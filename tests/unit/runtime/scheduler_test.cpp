#include "runtime/scheduler.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::int32_t kTokensEach = 1000;  // token id = sequence * 1000 + position, so that a row tells whose it is

struct Request {
  std::int64_t prompt = 0;
  std::int64_t most = 0;         // what the scheduler is told
  std::int64_t end = 0;          // where the sequence really ends, <= most
  std::int64_t first_logit = 0;  // as in Sequence
};

// Runs requests through a scheduler and checks every step against a model that knows only the promises.
class Drive {
 public:
  Drive(const SchedulerLimits& limits, std::vector<Request> requests)
      : limits_(limits), requests_(std::move(requests)), scheduler_(limits), computed_(requests_.size(), 0) {}

  void add(std::size_t count) {
    for (; count > 0 && added_ < requests_.size(); --count, ++added_) {
      const Request& r = requests_[added_];
      Sequence sequence{.index = static_cast<std::int64_t>(added_),
                        .tokens = {},
                        .prompt_tokens = r.prompt,
                        .most_tokens = r.most,
                        .first_logit = r.first_logit,
                        .blocks = {}};
      for (std::int64_t p = 0; p < r.prompt; ++p) sequence.tokens.push_back(token(added_, p));
      scheduler_.add(std::move(sequence));
    }
  }

  // False when the scheduler has nothing left.
  bool step() {
    if (!scheduler_.next(step_, rows_)) {
      EXPECT_EQ(scheduler_.waiting() + scheduler_.running(), 0);
      EXPECT_EQ(scheduler_.blocks_used(), 0);
      EXPECT_TRUE(owner_.empty());
      return false;
    }
    for (const auto part :
         {&Drive::check_limits, &Drive::check_rows, &Drive::check_blocks, &Drive::check_logit_rows, &Drive::answer}) {
      (this->*part)();
      if (testing::Test::HasFatalFailure()) return false;
    }
    return true;
  }

  void expect_all_finished() const {
    EXPECT_EQ(added_, requests_.size());
    for (std::size_t s = 0; s < requests_.size(); ++s) EXPECT_EQ(computed_[s], requests_[s].end - 1) << s;
  }

 private:
  static std::int32_t token(std::size_t sequence, std::int64_t position) {
    return static_cast<std::int32_t>(sequence) * kTokensEach + static_cast<std::int32_t>(position);
  }
  std::size_t sequence_of(std::int64_t row) const {
    return static_cast<std::size_t>(step_.tokens[static_cast<std::size_t>(row)] / kTokensEach);
  }
  std::int64_t blocks_of(std::size_t sequence) const {
    return (requests_[sequence].most + limits_.block_size - 1) / limits_.block_size;
  }

  void check_limits() {
    ASSERT_GT(step_.rows(), 0);
    ASSERT_LE(step_.rows(), limits_.max_rows);
    ASSERT_LE(step_.sequences(), limits_.max_sequences);
    ASSERT_LE(scheduler_.running(), limits_.max_sequences);
    ASSERT_EQ(scheduler_.running() + scheduler_.waiting() + static_cast<std::int64_t>(finished_.size()),
              static_cast<std::int64_t>(added_));
    // first come, first admitted: those that run are the first of the list, and their blocks are all that is taken
    std::int64_t used = 0;
    const auto admitted = static_cast<std::size_t>(scheduler_.running()) + finished_.size();
    for (std::size_t s = 0; s < admitted; ++s) used += finished_.contains(s) ? 0 : blocks_of(s);
    ASSERT_EQ(scheduler_.blocks_used(), used);
    ASSERT_LE(used, limits_.blocks);
  }

  // Rows of a sequence are adjacent, positions ascend from where the sequence stood, and tokens are its own.
  void check_rows() {
    ASSERT_EQ(step_.row_begin.front(), 0);
    ASSERT_EQ(step_.row_begin.back(), step_.rows());
    ASSERT_EQ(step_.positions.size(), step_.tokens.size());
    ASSERT_EQ(step_.slots.size(), step_.tokens.size());
    std::set<std::size_t> seen;
    for (std::size_t s = 0; s < static_cast<std::size_t>(step_.sequences()); ++s) {
      ASSERT_LT(step_.row_begin[s], step_.row_begin[s + 1]);
      const std::size_t sequence = sequence_of(step_.row_begin[s]);
      ASSERT_TRUE(seen.insert(sequence).second) << "a sequence stands twice in a step";
      ASSERT_FALSE(finished_.contains(sequence));
      for (std::int32_t row = step_.row_begin[s]; row < step_.row_begin[s + 1]; ++row) {
        const auto r = static_cast<std::size_t>(row);
        ASSERT_EQ(step_.positions[r], computed_[sequence]);
        ASSERT_EQ(step_.tokens[r], token(sequence, computed_[sequence]));
        ++computed_[sequence];
      }
    }
  }

  // A slot lies in the block that the table names for its position; no block has two owners.
  void check_blocks() {
    std::int64_t widest = 0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(step_.sequences()); ++s) {
      const std::size_t sequence = sequence_of(step_.row_begin[s]);
      const auto* table = step_.block_table.data() + s * static_cast<std::size_t>(step_.table_width);
      const std::int64_t needed = (computed_[sequence] + limits_.block_size - 1) / limits_.block_size;
      widest = std::max(widest, needed);
      for (std::int64_t b = 0; b < step_.table_width; ++b) {
        if (b < needed) {
          ASSERT_GE(table[b], 0);
        }
        if (table[b] < 0) continue;
        ASSERT_LT(table[b], limits_.blocks);
        const auto place = std::pair{sequence, b};
        const auto [at, fresh] = owner_.emplace(table[b], place);
        ASSERT_EQ(at->second, place) << "block " << table[b] << " is shared or has moved";
      }
      for (std::int32_t row = step_.row_begin[s]; row < step_.row_begin[s + 1]; ++row) {
        const auto position = step_.positions[static_cast<std::size_t>(row)];
        ASSERT_EQ(step_.slots[static_cast<std::size_t>(row)],
                  table[position / limits_.block_size] * limits_.block_size + position % limits_.block_size);
      }
    }
    ASSERT_EQ(step_.table_width, widest);
    ASSERT_EQ(step_.block_table.size(), static_cast<std::size_t>(step_.sequences() * step_.table_width));
  }

  void check_logit_rows() {
    std::vector<std::int32_t> wanted;
    for (std::int32_t row = 0; row < step_.rows(); ++row)
      if (step_.positions[static_cast<std::size_t>(row)] >= requests_[sequence_of(row)].first_logit)
        wanted.push_back(row);
    ASSERT_EQ(step_.logit_rows, wanted);
    ASSERT_EQ(rows_.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(rows_[i].sequence, static_cast<std::int64_t>(sequence_of(wanted[i])));
      ASSERT_EQ(rows_[i].position, step_.positions[static_cast<std::size_t>(wanted[i])]);
    }
  }

  // What the engine does: a token after the last position of the prompt and after each new one, or the end.
  void answer() {
    for (const LogitRow& row : rows_) {
      const auto s = static_cast<std::size_t>(row.sequence);
      if (row.position + 1 < requests_[s].prompt) continue;
      if (row.position + 2 < requests_[s].end) {
        scheduler_.append(row.sequence, token(s, row.position + 1));
        continue;
      }
      scheduler_.finish(row.sequence);
      finished_.insert(s);
      std::erase_if(owner_, [&](const auto& entry) { return entry.second.first == s; });
    }
  }

  SchedulerLimits limits_;
  std::vector<Request> requests_;
  Scheduler scheduler_;
  std::vector<std::int64_t> computed_;
  std::set<std::size_t> finished_;
  std::map<std::int32_t, std::pair<std::size_t, std::int64_t>> owner_;  // block -> (sequence, place in its table)
  std::size_t added_ = 0;
  Step step_;
  std::vector<LogitRow> rows_;
};

TEST(Scheduler, RandomScenariosKeepEveryPromise) {
  std::mt19937 engine(42);
  const auto roll = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine);
  };
  for (int scenario = 0; scenario < 200; ++scenario) {
    SCOPED_TRACE(scenario);
    const SchedulerLimits limits{
        .max_sequences = roll(1, 7), .max_rows = roll(1, 24), .block_size = roll(0, 1) ? 4 : 16, .blocks = roll(1, 30)};
    const std::int64_t capacity = limits.block_size * limits.blocks;
    std::vector<Request> requests(static_cast<std::size_t>(roll(1, 20)));
    for (Request& r : requests) {
      r.most = roll(2, std::min<std::int64_t>(capacity, 60));
      r.prompt = roll(1, r.most - 1);
      r.end = roll(r.prompt + 1, r.most);
      r.first_logit = roll(0, 3) ? r.prompt - 1 : 0;
    }
    Drive drive(limits, requests);
    drive.add(static_cast<std::size_t>(roll(1, 20)));
    int steps = 0;
    while (true) {
      if (roll(0, 4) == 0) drive.add(static_cast<std::size_t>(roll(1, 4)));
      if (drive.step()) {
        ASSERT_LT(++steps, 3000) << "something never finishes";
        continue;
      }
      if (HasFatalFailure()) return;
      drive.add(requests.size());  // the rest comes after the scheduler ran dry
      if (!drive.step()) break;
    }
    drive.expect_all_finished();
  }
}

TEST(Scheduler, DecodesGoBeforePrompts) {
  Scheduler scheduler({.max_sequences = 4, .max_rows = 5, .block_size = 16, .blocks = 8});
  const auto add = [&](std::int64_t index, std::size_t prompt) {
    scheduler.add({.index = index,
                   .tokens = std::vector<std::int32_t>(prompt, 1),
                   .prompt_tokens = static_cast<std::int64_t>(prompt),
                   .most_tokens = 20,
                   .first_logit = static_cast<std::int64_t>(prompt) - 1,
                   .blocks = {}});
  };
  Step step;
  std::vector<LogitRow> rows;
  add(0, 2);
  ASSERT_TRUE(scheduler.next(step, rows));
  ASSERT_EQ(rows.size(), 1U);
  scheduler.append(0, 7);
  add(1, 12);
  for (const std::int32_t chunk : {4, 4, 4}) {  // the prompt of sequence 1 in chunks beside sequence 0's one row
    ASSERT_TRUE(scheduler.next(step, rows));
    EXPECT_EQ(step.row_begin, (std::vector<std::int32_t>{0, 1, 1 + chunk}));
    ASSERT_FALSE(rows.empty());
    EXPECT_EQ(rows.front().sequence, 0);
    scheduler.append(0, 7);
  }
  EXPECT_EQ(rows.size(), 2U);
}

TEST(Scheduler, WhatCanNeverRunIsRefused) {
  Scheduler scheduler({.max_sequences = 1, .max_rows = 8, .block_size = 16, .blocks = 2});
  EXPECT_EQ(scheduler.capacity_tokens(), 32);
  Sequence sequence{.tokens = {1}, .prompt_tokens = 1, .most_tokens = 33, .blocks = {}};
  EXPECT_THROW(scheduler.add(sequence), Error);
  sequence.most_tokens = 32;
  scheduler.add(sequence);
  EXPECT_THROW(scheduler.append(0, 1), Error);  // it waits, it does not run
  sequence.tokens.clear();
  EXPECT_THROW(scheduler.add(sequence), Error);
}

TEST(Step, CrossesRanksUnchanged) {
  Step step{.stop = false,
            .tokens = {1, 2, 3},
            .positions = {0, 1, 9},
            .slots = {16, 17, 41},
            .row_begin = {0, 2, 3},
            .block_table = {1, -1, 2, 5},
            .table_width = 2,
            .logit_rows = {1, 2}};
  std::vector<std::byte> bytes(1000, std::byte{0xff});
  Step other = step;  // what was there before goes
  other.stop = true;
  other.table_width = 9;
  other.tokens.resize(50);
  other.row_begin.clear();
  for (int round = 0; round < 2; ++round) {
    encode(step, bytes);
    decode_step(bytes, other);
    EXPECT_EQ(std::tie(other.stop, other.tokens, other.positions, other.slots, other.row_begin, other.block_table,
                       other.table_width, other.logit_rows),
              std::tie(step.stop, step.tokens, step.positions, step.slots, step.row_begin, step.block_table,
                       step.table_width, step.logit_rows));
    step.clear();
    EXPECT_FALSE(step.stop);
    step.stop = true;
  }
  EXPECT_EQ(other.sequences(), 0);
  bytes.pop_back();
  EXPECT_THROW(decode_step(bytes, other), Error);
}

}  // namespace
}  // namespace tpinfer
