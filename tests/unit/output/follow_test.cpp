#include <fstream>

#include "app/progress.hpp"
#include "output/journal.hpp"
#include "output/journal_reader.hpp"
#include "scratch.hpp"

namespace tpinfer::test {
namespace {

class Follow : public Scratch {
 protected:
  void SetUp() override {
    Scratch::SetUp();
    file_ = folder_ / "a.h5.journal";
  }
  /// Prompts of two samples each; the last one fails, the one before lacks an answer.
  void write(const std::string& run_id, int prompts, std::int32_t attempts = 1) {
    Journal journal(JournalFile(file_, 0), {}, 0);
    JournalHead head;
    head.run_id = run_id;
    journal.begin(head);
    for (std::int32_t attempt = 0; attempt < attempts; ++attempt) {
      journal.begin_attempt({.number = attempt, .prompts = 100, .row = {}}, {});
      for (int i = 0; i < prompts; ++i) {
        PromptRow prompt;
        prompt.id = fmt::format("{} {} {}", run_id, attempt, i);
        const auto number = journal.add_prompt(prompt, 2);
        AnswerRow answer;
        answer.attempt = attempt;
        answer.token_ids = {1, 2, 3};
        answer.t_finished = i + 1;
        journal.add_answer(number, answer);
        answer.sample_index = 1;
        if (i < prompts - 2) journal.add_answer(number, answer);
        if (i == prompts - 1) journal.add_failed(number, "no");
      }
      journal.end_attempt({.number = attempt, .prompts = 100, .row = {}});
    }
  }
  void append(std::string_view bytes) const { std::ofstream(file_, std::ios::binary | std::ios::app) << bytes; }

  std::filesystem::path file_;
};

std::string text(const JournalProgress& p) {
  return fmt::format("{} of {}, {} failed, {} before, {} tokens in {} s, {}", p.done, p.prompts, p.failed,
                     p.ended_before, p.tokens, p.seconds, p.attempt_has_ended ? "ended" : "running");
}

TEST_F(Follow, CountsTheLastAttemptAndWhatWasBefore) {
  JournalFollower follower(file_);
  EXPECT_FALSE(follower.look());
  write("run", 10);
  ASSERT_TRUE(follower.look());
  EXPECT_EQ(text(follower.progress()), "8 of 100, 1 failed, 0 before, 54 tokens in 10 s, ended");
  write("other", 20, 2);  // longer, in the same file
  ASSERT_TRUE(follower.look());
  EXPECT_EQ(text(follower.progress()), "36 of 100, 2 failed, 19 before, 114 tokens in 20 s, ended");
  write("short", 3);
  ASSERT_TRUE(follower.look());
  EXPECT_EQ(text(follower.progress()), "1 of 100, 1 failed, 0 before, 12 tokens in 3 s, ended");
  std::filesystem::remove(file_);
  EXPECT_FALSE(follower.look());
}

TEST_F(Follow, AGrowingFileIsReadAsAWholeOne) {
  write("run", 5, 2);
  const std::string whole = slurp(file_);
  spit(file_, "");
  JournalFollower follower(file_);
  std::size_t at = 0;
  for (std::size_t step = 1; at < whole.size(); step = step * 7 % 61 + 1) {
    append(std::string_view(whole).substr(at, step));
    at = std::min(at + step, whole.size());
    ASSERT_TRUE(follower.look());
    JournalFollower fresh(file_);
    ASSERT_TRUE(fresh.look());
    ASSERT_EQ(text(follower.progress()), text(fresh.progress())) << at;
  }
  EXPECT_EQ(text(follower.progress()), "6 of 100, 2 failed, 4 before, 24 tokens in 5 s, ended");
}

TEST_F(Follow, ARecordWhoseBytesComeLateIsTakenThen) {
  write("run", 3);
  const std::string whole = slurp(file_);
  std::string late = whole;
  late.back() = static_cast<char>(~late.back());
  spit(file_, late);
  JournalFollower follower(file_);
  ASSERT_TRUE(follower.look());
  EXPECT_EQ(text(follower.progress()), "1 of 100, 1 failed, 0 before, 12 tokens in 3 s, running");
  spit(file_, whole);
  ASSERT_TRUE(follower.look());
  EXPECT_EQ(text(follower.progress()), "1 of 100, 1 failed, 0 before, 12 tokens in 3 s, ended");
}

TEST_F(Follow, TellsWhetherAJobHasTheJournal) {
  JournalFollower follower(file_);
  {
    Journal journal(JournalFile(file_, 0), {}, 0);
    journal.begin({});
    ASSERT_TRUE(follower.look());
    EXPECT_TRUE(follower.held());
  }
  ASSERT_TRUE(follower.look());
  EXPECT_FALSE(follower.held());
}

TEST(ProgressBar, MakesRoomForMessages) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(ProgressStyle::bar);
    progress.show(0.5, "x");
    progress.clear();
    progress.clear();
    progress.show(1, "y");
  }
  const std::string half = "\r[============            ]  50% x\x1b[K", none = "\r\x1b[K";
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), half + none + "\r[========================] 100% y\x1b[K\n");
}

TEST(BarLine, FitsTheTerminal) {
  const std::string text = "1/2 prompts | 5 tok/s";
  EXPECT_EQ(bar_line(50, text, 80), "[============            ]  50% " + text);
  EXPECT_EQ(bar_line(100, text, 39), "[==========] 100% " + text);
  EXPECT_EQ(bar_line(50, text, 34), "[==   ]  50% " + text);
  EXPECT_EQ(bar_line(50, text, 33), "50% " + text);
  EXPECT_EQ(bar_line(50, text, 15), "50% 1/2 prompt…");
  for (std::size_t columns = 1; columns < 100; ++columns)
    EXPECT_LE(bar_line(7, text, columns).size(), columns + 2) << columns;  // "…" has three bytes
  PromptProgress prompts;
  prompts = {.ended = 1850, .all = 5000, .failed = 3, .ended_now = 850, .left = 3150, .tokens = 22110, .seconds = 10};
  EXPECT_EQ(prompts.text(), "1850/5000 prompts | 2211 tok/s | 00:00:10 elapsed | ETA 00:00:37 | failed 3");
  prompts.kv_share = 0.71;
  EXPECT_EQ(bar_line(prompts, 99),
            "[==     ]  37% 1850/5000 prompts | 2211 tok/s | 00:00:10 elapsed | ETA 00:00:37 | kv 71% | failed 3");
  EXPECT_EQ(bar_line(prompts, 79), "[=====         ]  37% 1850/5000 | 2211 tok/s | ETA 00:00:37 | kv 71% | failed 3");
}

}  // namespace
}  // namespace tpinfer::test
