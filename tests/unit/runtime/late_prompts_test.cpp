#include "runtime/late_prompts.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "output/journal_reader.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 34;
constexpr std::int64_t kFirst = 20;

std::string record(int i, const std::string& more = "") {
  return fmt::format(R"({{"id": "p{}", "prompt": "He is number {} and{}"{}}})", i, i, i > 50 ? " so on" : "", more) +
         "\n";
}

/// A job of the smallest model, in a folder of its own.
struct Place {
  Place() {
    folder = fs::path(testing::TempDir()) / fmt::format("late_{}_{}", ::getpid(), ++count);
    fs::create_directories(folder);
    job.model.path = fs::path(TPINFER_TEST_DATA) / "models" / "tiny-llama";
    job.prompts.files = {folder / "p.jsonl"};
    job.prompts.format = PromptFormat::jsonl;
    job.output.file = folder / "a.h5";
    job.sampling.max_new_tokens = 5;
  }
  ~Place() { fs::remove_all(folder); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  void write(const std::string& text) const { std::ofstream(folder / "p.jsonl") << text; }
  Preparation prepared(const PartLimit& first, std::uint64_t budget = kPlenty) const {
    return prepare(job, {budget}, Device::cpu, Log(), {}, {.first = first, .stopped = {}});
  }

  static inline int count = 0;
  fs::path folder;
  Job job;
};

std::string lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += record(i, i % 7 == 3 ? R"(, "params": {"n": 2})" : "");
  return text;
}

/// Rank 0's part of a job that answers nothing.
struct Reading {
  explicit Reading(const Place& place, std::uint64_t budget = kPlenty)
      : prepared(place.prepared({.prompts = kFirst}, budget)), store(place.job.output, RunIdentity{}, "now", Log()) {
    store.open(prepared.prompts, prepared.requests, true);
    requests = prepared.requests;
    book.emplace(std::move(prepared.prompts), prepared.requests, &*prepared.tokenizer, store);
    late.emplace(place.job, prepared, Log([this](LogLevel, const std::string& text) { said.push_back(text); }));
    store.begin({}, book->prompts());
    late->write_to(*book);
  }
  // -> whether it came to an end by itself
  bool read(milliseconds most = milliseconds(20'000)) {
    for (const auto start = Clock::now(); !late->ended() && !late->failed() && Clock::now() - start < most;) {
      for (Request& r : late->take(milliseconds(20))) requests.push_back(std::move(r));
      book->prompts();
      prepared.tokenizer->decode(requests.back().token_ids, true);  // as answers are, meanwhile
    }
    return late->ended() || late->failed();
  }
  std::string fault() const {
    try {
      late->check();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::input);
      return e.what();
    }
    return "";
  }

  Preparation prepared;
  AnswerStore store;
  std::vector<Request> requests;
  std::vector<std::string> said;
  std::optional<AnswerBook> book;
  std::optional<LatePrompts> late;
};

TEST(LatePrompts, AreThoseThatAreReadFirstOtherwise) {
  Place place;
  place.write(lines(0, 3000) + R"({"id": "bad", "prompt": "x", "params": {"top_q": 1}})" + "\n" + lines(3000, 5000));
  Preparation all = place.prepared({});
  EXPECT_EQ(all.more, nullptr);
  for (const Request& r : all.requests) all.prompts[static_cast<std::size_t>(r.prompt_index)].content = content_hash(r);
  Reading reading(place);
  ASSERT_EQ(reading.book->total(), static_cast<std::size_t>(kFirst));
  EXPECT_TRUE(reading.book->more());
  EXPECT_FALSE(reading.book->is_complete());
  ASSERT_TRUE(reading.read());
  EXPECT_EQ(reading.fault(), "");
  EXPECT_FALSE(reading.book->more());
  EXPECT_EQ(reading.said, std::vector<std::string>{"all 5001 prompts have been read"});
  EXPECT_EQ(reading.book->left(), 5000U);
  EXPECT_EQ(reading.book->failed(), 1U);
  const auto& rows = reading.book->prompts();
  ASSERT_EQ(rows.size(), all.prompts.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].id, all.prompts[i].id);
    EXPECT_EQ(rows[i].token_ids, all.prompts[i].token_ids);
    EXPECT_EQ(rows[i].status, all.prompts[i].status);
    EXPECT_EQ(rows[i].error, all.prompts[i].error);
    EXPECT_EQ(rows[i].content, all.prompts[i].content) << i;
  }
  ASSERT_EQ(reading.requests.size(), all.requests.size());
  EXPECT_TRUE(encode(reading.requests) == encode(all.requests));
  // readers of the journal learn of it, and that a prompt has failed
  const auto journal = read_journal(journal_of(place.job.output.file), JournalRows::all, ExitCode::output);
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->job_prompts, 5001);
  EXPECT_EQ(journal->about.attempts.size(), 1U);
  ASSERT_EQ(journal->prompts.size(), 1U);
  EXPECT_EQ(journal->prompts[0].row.id, "bad");
}

TEST(LatePrompts, AnIdThatComesAgainIsNamedWithBothPlaces) {
  Place place;
  place.write(lines(0, 500) + record(3));
  Reading reading(place);
  ASSERT_TRUE(reading.read());
  EXPECT_TRUE(reading.late->failed());
  const std::string file = place.folder / "p.jsonl";
  EXPECT_EQ(reading.fault().substr(0, reading.fault().find(" (ids must")),
            fmt::format("{}:501: the id \"p3\" stands at {}:4 already", file, file));
  EXPECT_EQ(reading.book->total(), 500U);
  EXPECT_EQ(reading.requests.size(), 500U);
  EXPECT_TRUE(reading.late->take(milliseconds(0)).empty());
}

TEST(LatePrompts, AFaultComesAfterWhatWasReadBefore) {
  Place place;
  place.job.prompts.files.push_back(place.folder / "q.csv");
  place.job.prompts.format = PromptFormat::automatic;
  std::ofstream(place.folder / "q.csv") << "a,a\n";
  place.write(lines(0, 700));
  Reading reading(place);
  ASSERT_TRUE(reading.read());
  EXPECT_NE(reading.fault().find("q.csv:1: the header names the column \"a\" twice"), std::string::npos);
  EXPECT_EQ(reading.requests.size(), 700U);
  EXPECT_FALSE(reading.book->is_complete());
}

TEST(LatePrompts, APipeIsReadAsItComesAndLeftWhenToldSo) {
  Place place;
  const std::string pipe = place.folder / "p.jsonl";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int fd = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // both ends, so that it opens at once and stays open
  ASSERT_GE(fd, 0);
  const auto write = [&](const std::string& text) { return ::write(fd, text.data(), text.size()); };
  ASSERT_GT(write(lines(0, kFirst + 1)), 0);
  {
    Reading reading(place);
    EXPECT_FALSE(reading.read(milliseconds(200)));
    EXPECT_EQ(reading.requests.size(), kFirst + 1U);
    ASSERT_GT(write(lines(kFirst + 1, kFirst + 5)), 0);
    EXPECT_FALSE(reading.read(milliseconds(300)));
    EXPECT_EQ(reading.requests.size(), kFirst + 5U);
    const auto start = Clock::now();
    reading.late->stop();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
    EXPECT_FALSE(reading.late->ended());
    EXPECT_FALSE(reading.late->failed());
    EXPECT_FALSE(reading.book->is_complete());
  }
  ::close(fd);
}

TEST(LatePrompts, AStopWhileTheFirstPartIsReadEndsThePreparation) {
  Place place;
  const std::string pipe = place.folder / "p.jsonl";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);  // nobody ever writes to it
  const auto start = Clock::now();
  const StopReading soon = [&] { return Clock::now() - start > milliseconds(100); };
  try {
    prepare(place.job, {kPlenty}, Device::cpu, Log(), {}, {.first = {.prompts = kFirst}, .stopped = soon});
    FAIL() << "it was read";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::stopped_early);
  }
}

TEST(LatePrompts, AFirstPartEndsBehindSoManyPromptsOrBytes) {
  Place place;
  place.write(lines(0, 1000));
  EXPECT_EQ(place.prepared({.prompts = 1000}).more, nullptr);
  EXPECT_EQ(place.prepared({.prompts = 999}).prompts.size(), 999U);
  const Preparation few = place.prepared({.bytes = 500});
  ASSERT_NE(few.more, nullptr);
  EXPECT_LT(few.prompts.size(), 20U);
  EXPECT_GT(few.prompts.size(), 5U);
  place.job.prompts.select.limit = 999;
  EXPECT_EQ(place.prepared({.prompts = 999}).more, nullptr);
}

TEST(LatePrompts, ThePlanHasRoomForPromptsOfAnyLengthOrAllAreReadFirst) {
  Place place;
  place.job.engine.max_num_seqs = 2;
  place.write(lines(0, 1000));
  const Preparation part = place.prepared({.prompts = kFirst});
  ASSERT_NE(part.more, nullptr);
  const std::int64_t most = part.model->spec.max_positions;
  EXPECT_EQ(part.memory.limits.max_model_len, most);
  EXPECT_EQ(part.memory.limits.max_sequences, place.job.engine.max_num_seqs);
  EXPECT_GE(part.memory.kv_tokens(), most);
  const Preparation all = place.prepared({});
  ASSERT_LT(all.memory.limits.max_model_len, most);
  EXPECT_LT(all.memory.ranks[0].total(), part.memory.ranks[0].total());
  // where there is memory for the prompts as they are alone
  const Preparation tight = place.prepared({.prompts = kFirst}, all.memory.ranks[0].total());
  EXPECT_EQ(tight.more, nullptr);
  EXPECT_EQ(tight.prompts.size(), 1000U);
  EXPECT_EQ(tight.memory.ranks[0].total(), all.memory.ranks[0].total());
  // that rank 0 keeps more answers at the end than were planned for is told
  {
    Reading exact(place, part.memory.ranks[0].total());
    ASSERT_TRUE(exact.read());
    ASSERT_EQ(exact.said.size(), 2U);
    EXPECT_NE(exact.said[1].find("rank 0 may need"), std::string::npos);
  }
  // a cache of the job's own size: what is too long for it is so late as well
  place.job.memory.kv_cache.tokens = 16;
  place.write(lines(0, 60));
  const Preparation known = place.prepared({});
  Reading reading(place);
  ASSERT_TRUE(reading.read());
  std::size_t failed = 0;
  for (std::size_t i = 0; i < known.prompts.size(); ++i) {
    failed += known.prompts[i].status == PromptStatus::failed ? 1 : 0;
    EXPECT_EQ(reading.book->prompts()[i].status, known.prompts[i].status) << i;
    EXPECT_EQ(reading.book->prompts()[i].error, known.prompts[i].error) << i;
  }
  EXPECT_GT(failed, 0U);
  EXPECT_LT(failed, 60U);
  EXPECT_EQ(reading.book->failed(), failed);
}

TEST(LatePrompts, AnswersOfAnotherJobAreNotMixedWithThese) {
  Place place;
  place.write(lines(0, 100));
  {
    Reading reading(place);
    AnswerRow answer;
    answer.token_ids = {5};
    answer.logprobs = {-1};
    reading.book->take(answer);
    reading.store.end("now", "stopped", 1);
  }
  Preparation prepared = place.prepared({.prompts = kFirst});
  AnswerStore store(place.job.output, RunIdentity{}, "now", Log());
  try {
    store.open(prepared.prompts, prepared.requests, true);
    FAIL() << "it was opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::output);
    EXPECT_NE(std::string(e.what()).find("another job has just written answers there"), std::string::npos);
  }
}

}  // namespace
}  // namespace tpinfer
