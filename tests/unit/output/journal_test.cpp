#include "output/journal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>

#include "core/error.hpp"
#include "output/journal_reader.hpp"
#include "output/result_writer.hpp"
#include "output/stored_answers.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

JournalHead some_head() {
  return {
      .run_id = "run",
      .created = "2026-01-01T00:00:00Z",
      .base = {},
      .identity = {
          .files = {{"model.safetensors", 10, 77}}, .dtype = "float32", .numeric_version = 1, .kernel_set = "avx2"}};
}

PromptRow prompt(const std::string& id) {
  PromptRow row;
  row.id = id;
  row.text = "text of " + id;
  row.token_ids = {1, 2, 3};
  row.meta = "{\"a\":1}";
  row.content = hash_bytes(id);
  return row;
}

AnswerRow answer(std::int32_t sample, std::int32_t tokens) {
  AnswerRow row;
  row.sample_index = sample;
  row.text = "answer";
  for (std::int32_t i = 0; i < tokens; ++i) {
    row.token_ids.push_back(sample * 100 + i);
    row.logprobs.push_back(-0.5F * static_cast<float>(i));
  }
  row.cumulative_logprob = -3;
  return row;
}

class JournalTest : public testing::Test {
 protected:
  JournalTest() { fs::create_directory(folder_); }
  ~JournalTest() override { fs::remove_all(folder_); }

  fs::path folder_ = fs::path(testing::TempDir()) / ("journal_" + std::to_string(::getpid()));
  fs::path result_ = folder_ / "a.h5";
  fs::path file_ = journal_of(result_);

  // Three prompts, of which one has two answers and scores, one has failed, one has one answer; ends of all records.
  std::vector<std::uint64_t> write(const FlushRule& rule = {}) {
    std::vector<std::uint64_t> ends;
    Journal journal(JournalFile(file_, 0), rule, 0);
    const auto note = [&] { ends.push_back(journal.file().size()); };
    journal.begin(some_head()), note();
    journal.begin_attempt({.number = 0, .prompts = 3, .row = {.start = "then", .end = {}, .reason = "interrupted"}},
                          {}),
        note();
    const auto a = journal.add_prompt(prompt("a"), 2);
    note();
    PromptRow scores;
    scores.prompt_logprobs = {0, -1, -2};
    journal.add_scores(a, scores), note();
    journal.add_answer(a, answer(0, 4)), note();
    const auto b = journal.add_prompt(prompt("b"), 1);
    note();
    journal.add_failed(b, "it cannot be"), note();
    journal.add_answer(a, answer(1, 2)), note();
    const auto c = journal.add_prompt(prompt("c"), 1);
    note();
    journal.add_answer(c, answer(0, 3)), note();
    return ends;
  }

  std::optional<JournalContent> read(JournalRows rows = JournalRows::all) {
    return read_journal(file_, rows, ExitCode::output);
  }

  std::string bytes() {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& bytes) { std::ofstream(file_, std::ios::binary | std::ios::trunc) << bytes; }
};

std::size_t finished_of(const JournalContent& content, std::string_view id) {
  for (const auto& p : content.prompts)
    if (p.row.id == id) return p.finished.size();
  return 0;
}

std::string message_of(const std::function<void()>& work, ExitCode code) {
  try {
    work();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_F(JournalTest, GivesBackWhatWasWritten) {
  write();
  const auto content = read();
  ASSERT_TRUE(content);
  EXPECT_TRUE(content->damage.empty());
  EXPECT_EQ(content->head.identity, some_head().identity);
  EXPECT_EQ(content->end, fs::file_size(file_));
  EXPECT_EQ(content->attempts, 1);
  EXPECT_EQ(content->next_prompt, 3U);
  const RunResult result = to_result(*content);
  ASSERT_EQ(result.prompts.size(), 3U);
  EXPECT_EQ(result.prompts[0].status, PromptStatus::done);
  EXPECT_EQ(result.prompts[0].text, "text of a");
  EXPECT_EQ(result.prompts[0].prompt_logprobs, (std::vector<float>{0, -1, -2}));
  EXPECT_EQ(result.prompts[1].status, PromptStatus::failed);
  EXPECT_EQ(result.prompts[1].error, "it cannot be");
  ASSERT_EQ(result.answers.size(), 3U);
  EXPECT_EQ(result.answers[1].sample_index, 1);
  EXPECT_EQ(result.answers[1].token_ids, answer(1, 2).token_ids);
  EXPECT_EQ(result.answers[2].prompt_index, 2);
  EXPECT_EQ(result.identity(), some_head().identity);
  EXPECT_EQ(result.attempts.at(0).reason, "interrupted");
}

TEST_F(JournalTest, ASinkGetsAllRowsInsteadOfTheMemory) {
  write();
  std::vector<std::pair<std::uint32_t, std::int32_t>> answers;
  std::vector<std::uint32_t> scored;
  const JournalSink sink{.answer =
                             [&](std::uint32_t number, AnswerRow&& row) {
                               EXPECT_EQ(row.logprobs.size(), row.token_ids.size());
                               answers.emplace_back(number, row.sample_index);
                             },
                         .scores =
                             [&](std::uint32_t number, PromptRow&& row) {
                               EXPECT_EQ(row.prompt_logprobs, (std::vector<float>{0, -1, -2}));
                               scored.push_back(number);
                             }};
  const JournalFile file(file_, 0);
  const auto content = read_journal(file.fd(), file.path(), sink, ExitCode::output);
  ASSERT_TRUE(content);
  EXPECT_EQ(answers, (std::vector<std::pair<std::uint32_t, std::int32_t>>{{0, 0}, {0, 1}, {2, 0}}));
  EXPECT_EQ(scored, (std::vector<std::uint32_t>{0}));
  EXPECT_TRUE(content->prompts.empty());
  EXPECT_TRUE(content->answers.empty());
  EXPECT_TRUE(content->damage.empty());
  EXPECT_EQ(content->about.attempts.at(0).reason, "interrupted");
}

TEST_F(JournalTest, TornAtEachByteItKeepsAllWholeRecords) {
  const auto ends = write();
  const std::string whole = bytes();
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    put(whole.substr(0, size));
    const auto content = read(JournalRows::none);
    if (size < ends[0]) {
      EXPECT_FALSE(content) << size;
      continue;
    }
    ASSERT_TRUE(content) << size;
    const auto last = std::ranges::upper_bound(ends, size) - 1;
    EXPECT_EQ(content->end, *last) << size;
    EXPECT_TRUE(content->damage.empty()) << size;
    EXPECT_EQ(finished_of(*content, "a"), (size >= ends[4] ? 1U : 0U) + (size >= ends[7] ? 1U : 0U)) << size;
  }
}

TEST_F(JournalTest, FlippedBitsCostTheirOwnRecordAlone) {
  const auto ends = write();
  const std::string whole = bytes();
  for (std::size_t at = ends[1]; at < whole.size(); ++at) {
    std::string bent = whole;
    bent[at] = static_cast<char>(bent[at] ^ 0x10);
    put(bent);
    const auto content = read();
    ASSERT_TRUE(content);
    const auto record = static_cast<std::size_t>(std::ranges::upper_bound(ends, at) - ends.begin());
    const bool tail = record + 1 == ends.size();
    EXPECT_EQ(content->damage.empty(), tail) << at;
    EXPECT_EQ(content->end, tail ? ends[record - 1] : whole.size()) << at;
    // without their prompt's record answers are nobody's
    const std::size_t a = record == 2 ? 0 : record == 4 || record == 7 ? 1 : 2;
    EXPECT_EQ(finished_of(*content, "a"), a) << at;
    EXPECT_EQ(finished_of(*content, "c"), record >= 8 ? 0U : 1U) << at;
    for (const AnswerRow& row : content->answers)
      EXPECT_EQ(row.token_ids, answer(row.sample_index, static_cast<std::int32_t>(row.token_ids.size())).token_ids);
  }
}

TEST_F(JournalTest, GoesOnBehindATornTail) {
  const auto ends = write();
  fs::resize_file(file_, ends.back() - 3);
  {
    JournalFile file(file_, 0);
    const auto content = read_journal(file.fd(), file_, JournalRows::none, ExitCode::output);
    EXPECT_EQ(content->end, ends[8]);
    file.cut(content->end);
    Journal journal(std::move(file), {}, content->next_prompt);
    journal.begin_attempt({.number = 1, .prompts = 4, .row = {}}, {});
    journal.add_answer(journal.add_prompt(prompt("d"), 1), answer(0, 1));
    AnswerRow late = answer(0, 3);
    late.attempt = 1;
    journal.add_answer(2, late);
  }
  const auto content = read();
  EXPECT_EQ(content->attempts, 2);
  EXPECT_EQ(finished_of(*content, "c"), 1U);
  EXPECT_EQ(finished_of(*content, "d"), 1U);
  EXPECT_TRUE(content->damage.empty());
}

TEST_F(JournalTest, AnAnswerThatIsThereTwiceCountsOnce) {
  {
    Journal journal(JournalFile(file_, 0), {}, 0);
    journal.begin(some_head());
    const auto a = journal.add_prompt(prompt("a"), 1);
    journal.add_answer(a, answer(0, 2));
    journal.add_answer(a, answer(0, 2));
    journal.add_answer(journal.add_prompt(prompt("a"), 1), answer(0, 2));
  }
  const auto content = read();
  EXPECT_EQ(content->prompts.size(), 1U);
  EXPECT_EQ(content->answers.size(), 1U);
}

TEST_F(JournalTest, OtherVersionsAndOtherFilesAreRefused) {
  write();
  std::string other = bytes();
  other[8] = 9;
  put(other);
  const std::string version = message_of([&] { read(); }, ExitCode::output);
  EXPECT_NE(version.find("version 9"), std::string::npos) << version;
  put("this is no journal, but some other file of a user");
  const std::string foreign = message_of([&] { read(); }, ExitCode::output);
  EXPECT_NE(foreign.find("no journal"), std::string::npos) << foreign;
  put(std::string(4096, '\0'));  // what a file system may leave after a power cut
  EXPECT_FALSE(read());
}

TEST_F(JournalTest, ASecondJobIsKeptOutUntilTheFirstHasEnded) {
  auto first = std::make_optional<JournalFile>(file_, 0);
  EXPECT_TRUE(first->locked());
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 0;
    try {
      JournalFile second(file_, 0.1);
    } catch (const Error& e) {
      code = static_cast<int>(e.code());
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  const std::string message = message_of([&] { JournalFile(file_, 0); }, ExitCode::output);
  EXPECT_NE(message.find("another job"), std::string::npos) << message;
  // a descriptor of the same file that is closed does not end the lock
  ::close(::open(file_.c_str(), O_RDONLY));
  message_of([&] { JournalFile(file_, 0); }, ExitCode::output);
  first->remove();
  EXPECT_FALSE(fs::exists(file_));
  JournalFile next(file_, 0);  // not the file that was removed
  first.reset();
  EXPECT_TRUE(fs::exists(file_));
}

TEST_F(JournalTest, LinksAndOtherThingsAreNeverWrittenThrough) {
  const fs::path victim = folder_ / "victim";
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, file_);
  EXPECT_NE(message_of([&] { JournalFile(file_, 0); }, ExitCode::output).find("a link"), std::string::npos);
  fs::remove(file_);
  fs::create_hard_link(victim, file_);
  EXPECT_NE(message_of([&] { JournalFile(file_, 0); }, ExitCode::output).find("linked"), std::string::npos);
  fs::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_NE(message_of([&] { JournalFile(file_, 0); }, ExitCode::output).find("no regular file"), std::string::npos);
  EXPECT_EQ(fs::file_size(victim), 8U);
  message_of([&] { JournalFile(folder_ / "none" / "a.journal", 0); }, ExitCode::output);
}

TEST_F(JournalTest, HasTheRightsOfTheUmask) {
  const mode_t old = ::umask(0077);
  { JournalFile file(file_, 0); }
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(JournalTest, ADiskThatIsFullEndsItAndKeepsWhatIsThere) {
  std::signal(SIGXFSZ, SIG_IGN);
  Journal journal(JournalFile(file_, 0), {}, 0);
  journal.begin(some_head());
  const auto a = journal.add_prompt(prompt("a"), 2);
  journal.add_answer(a, answer(0, 4));
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = journal.file().size() + 50;  // a part of the next record fits
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = message_of([&] { journal.add_answer(a, answer(1, 4)); }, ExitCode::output);
  ::setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_NE(message.find(file_.string()), std::string::npos) << message;
  const auto content = read();
  EXPECT_EQ(finished_of(*content, "a"), 1U);
  EXPECT_LT(content->end, fs::file_size(file_));
}

TEST_F(JournalTest, SyncsByRecordsAndByTime) {
  Journal journal(JournalFile(file_, 0), {.records = 3, .seconds = 0.05}, 0);
  journal.begin(some_head());
  const auto a = journal.add_prompt(prompt("a"), 9);
  const auto before = journal.syncs();
  for (int i = 0; i < 6; ++i) journal.add_answer(a, answer(i, 1));
  EXPECT_EQ(journal.syncs(), before + 2);
  journal.tick();
  EXPECT_EQ(journal.syncs(), before + 2);  // nothing to sync
  journal.add_answer(a, answer(6, 1));
  ::usleep(60'000);
  journal.tick();
  EXPECT_EQ(journal.syncs(), before + 3);
}

TEST_F(JournalTest, ResultAndJournalAreReadAsOne) {
  RunResult base;
  base.run_id = "base";
  base.state = RunState::complete;
  base.prompts = {prompt("z")};
  base.prompts[0].status = PromptStatus::done;
  base.answers = {answer(0, 2)};
  base.attempts = {{.start = "first", .end = "later", .reason = "finished", .prompts_done = 1}};
  write_result_file(result_, base);
  EXPECT_EQ(read_answers(result_).prompts.size(), 1U);
  {
    JournalHead head = some_head();
    head.base = "base";
    head.attempts_before = 1;
    Journal journal(JournalFile(file_, 0), {}, 0);
    journal.begin(head);
    journal.begin_attempt({.number = 1, .prompts = 2, .row = {.start = "second", .end = {}, .reason = {}}}, {});
    journal.add_answer(journal.add_prompt(prompt("a"), 1), answer(0, 4));
  }
  for (const fs::path& name : {result_, file_}) {
    const RunResult all = read_answers(name);
    EXPECT_EQ(all.state, RunState::partial);
    ASSERT_EQ(all.prompts.size(), 2U);
    EXPECT_EQ(all.prompts[1].id, "a");
    EXPECT_EQ(all.answers.size(), 2U);
    ASSERT_EQ(all.attempts.size(), 2U);
    EXPECT_EQ(all.attempts[1].start, "second");
    const auto rows = open_answers(name);
    EXPECT_EQ(rows->facts().run_id, all.run_id);
    PromptRow row;
    std::vector<AnswerRow> answers;
    for (const PromptRow& expected : all.prompts) {
      ASSERT_TRUE(rows->next(row, answers));
      EXPECT_EQ(row.id, expected.id);
      EXPECT_EQ(answers.size(), 1U);
    }
    EXPECT_FALSE(rows->next(row, answers));
  }
  fs::remove(result_);
  EXPECT_EQ(read_answers(result_).prompts.size(), 1U);  // the journal's
}

TEST_F(JournalTest, AResultThatWasBuiltFromItWins) {
  write();
  RunResult built = to_result(*read());
  built.state = RunState::complete;
  built.answers[0].text = "as in the result";
  write_result_file(result_, built);
  EXPECT_EQ(read_answers(result_).answers[0].text, "as in the result");
  EXPECT_EQ(read_answers(result_).state, RunState::complete);
}

}  // namespace
}  // namespace tpinfer
