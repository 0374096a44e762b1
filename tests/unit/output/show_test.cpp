#include <sstream>

#include "app/cmd_show.hpp"
#include "app/table.hpp"
#include "core/json.hpp"
#include "output/result_writer.hpp"
#include "sample_result.hpp"
#include "scratch.hpp"

namespace tpinfer::test {
namespace {

class Show : public Scratch {
 protected:
  void SetUp() override {
    Scratch::SetUp();
    options_.file = folder_ / "a.h5";
    write_result_file(options_.file, sample_result());
  }
  std::string output() const {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_show(options_), 0);
    return ::testing::internal::GetCapturedStdout();
  }
  Json json() {
    options_.json = true;
    return parse_json(output(), "show --json");
  }
  ShowOptions options_;
};

TEST_F(Show, SaysInShortWhatTheFileHolds) {
  const auto text = output();
  EXPECT_HAS(text, "partial, 2 of 5 prompts done, 1 failed, 1 skipped, 1 pending");
  EXPECT_HAS(text, "12,345,678,901 parameters, stored as bfloat16, computed in float32");
  EXPECT_HAS(text, "3 (tensor parallel 3");
  EXPECT_HAS(text, "7 of prompts, 6 of answers, 1.7 tokens/s");  // 1 s in attempt 0, 2.5 s in attempt 1
  EXPECT_HAS(text, "\n[q1] Grüße 👋\na\u2400b😀\n-- stop, 4 tokens, sample 0\n");
  EXPECT_HAS(text, "\n[日本] (1 token ids)\nüber\n\uFFFD\n-- stop_string, 2 tokens\n");
  EXPECT_HAS(text, "\n[bad:3] too long\n-- failed: prompt 'bad:3' has 9000 tokens");
  EXPECT_HAS(text, "\n[later]\n-- pending\n");
}

TEST_F(Show, ShowsOnePromptWhole) {
  options_.id = "q1";
  const auto text = output();
  EXPECT_HAS(text, "-- stop, 4 tokens, sample 0, log probability -1.0000, 0.875 s after queueing");
  EXPECT_EQ(text.find("bad:3"), std::string::npos);
  options_.id = "bad:4";
  const auto unknown = complaint(ExitCode::usage, [&] { run_show(options_); });
  EXPECT_HAS(unknown, "no prompt with the id 'bad:4'");
  EXPECT_HAS(unknown, "is 'bad:3' meant?");
}

TEST_F(Show, PartsAreTablesOfAtMost120Cells) {
  options_.memory = options_.plan = options_.errors = options_.stats = true;
  const auto text = output();
  EXPECT_HAS(text, "rank      planned   touched     read    owned  RSS peak  anonymous peak");
  EXPECT_HAS(text, "2 node-1");
  EXPECT_HAS(text, "embed  bfloat16 [32002, 96]  token_embedding, vocabulary\n    rank 0: 0+10668 (2.05 MB)");
  EXPECT_HAS(text, "rank 0: whole (192 B)");
  EXPECT_HAS(text, "\n2 of 5 prompts done\n[bad:3] failed");
  EXPECT_HAS(text, "[later] pending\n");
  EXPECT_HAS(text, "to the first token");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
}

TEST_F(Show, JsonSaysTheSame) {
  const auto all = json();
  EXPECT_EQ(all["summary"]["prompts"]["failed"], 1);
  EXPECT_EQ(all["prompts"][0]["answers"][0]["finish_reason"], "stop");
  EXPECT_EQ(all["prompts"][0]["meta"]["a"], 1);
  options_.id = "q1";
  EXPECT_EQ(json()["prompts"][0]["answers"][0]["token_ids"], Json({97, 0, 98, 300}));
  options_.id.clear();
  options_.memory = options_.plan = options_.errors = options_.stats = true;
  const auto parts = json();
  EXPECT_FALSE(parts.contains("prompts"));
  EXPECT_EQ(parts["memory"][1]["by_class"]["final_norm"]["touched"], 97);
  EXPECT_EQ(parts["memory"][2]["predicted"]["kv_cache"], 202);
  EXPECT_EQ(parts["memory"][0]["anonymous_peak"], 5020);
  EXPECT_EQ(parts["plan"][0]["slices"][1]["start"], 10'668);
  EXPECT_EQ(parts["errors"][1]["status"], "skipped");
  EXPECT_EQ(parts["stats"]["answer_seconds"]["max"], 2.5);
}

TEST_F(Show, AFileWithoutRowsIsShown) {
  write_result_file(options_.file, RunResult{});
  EXPECT_HAS(output(), "0 of 0 prompts done");
  options_.memory = options_.plan = options_.errors = options_.stats = true;
  EXPECT_HAS(output(), "0 answers of 0 tokens");
}

TEST(Table, TextIsMadeSafeAndCutByCells) {
  EXPECT_EQ(printable("a\x1B[31m\tb\n\x7F\xC2\x9B\xFF\0"s), "a\u241B[31m\tb\n\u2421\uFFFD\uFFFD\u2400");
  EXPECT_EQ(one_line("  a \n\n b\tc  ", 10), "a b c");
  EXPECT_EQ(one_line("0123456789", 10), "0123456789");
  EXPECT_EQ(one_line("0123456789a", 10), "012345678…");
  EXPECT_EQ(one_line("日本日本", 8), "日本日本");
  EXPECT_EQ(one_line("日本日本", 7), "日本日…");
  EXPECT_EQ(one_line("日本日本", 6), "日本…");
  Table table({"名", "n"});
  table.row({"x", "1,000"});
  EXPECT_EQ(table.text(), "名      n\nx   1,000\n");
}

}  // namespace
}  // namespace tpinfer::test
