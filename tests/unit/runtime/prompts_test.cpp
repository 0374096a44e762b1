#include "runtime/prompts.hpp"

#include <gtest/gtest.h>

#include "checkpoint/model_folder.hpp"

namespace tpinfer {
namespace {

using test_files::complaint;
using test_files::mentions;

std::vector<PromptRecord> parse(const std::string& text, const std::string& name = "p.jsonl",
                                const PromptsJob& job = {}) {
  return parse_prompts(text, name, job);
}

struct Good {
  const char* what;
  const char* name;
  std::string text;
  std::vector<std::pair<std::string, std::string>> records;  // id, text
};

TEST(Prompts, LinesThatAreRead) {
  const Good cases[] = {
      {"text", "p.txt", "one\ntwo\n", {{"1", "one"}, {"2", "two"}}},
      {"no newline at the end", "p.txt", "one\ntwo", {{"1", "one"}, {"2", "two"}}},
      {"CRLF", "p.txt", "one\r\ntwo\r\n", {{"1", "one"}, {"2", "two"}}},
      {"BOM", "p.txt", "\xEF\xBB\xBFone\n", {{"1", "one"}}},
      {"blank lines keep the numbers", "p.txt", "\n \t\none\n\r\ntwo\n", {{"3", "one"}, {"5", "two"}}},
      {"spaces are the prompt's", "p.txt", "  one  \n", {{"1", "  one  "}}},
      {"JSON in a text file is text", "p.txt", "{\"prompt\": \"x\"}\n", {{"1", "{\"prompt\": \"x\"}"}}},
      {"text by its first character", "-", "one\n", {{"1", "one"}}},
      {"JSONL by its first character", "-", "\n  {\"prompt\": \"x\"}\n", {{"2", "x"}}},
      {"ids",
       "p.jsonl",
       "{\"id\":\"q17\",\"prompt\":\"a\"}\r\n{\"id\":5,\"prompt\":\"b\"}",
       {{"q17", "a"}, {"5", "b"}}},
      {"escapes", "p.ndjson", R"({"prompt":"a\nb\u00e9\ud83d\ude00"})", {{"1", "a\nb\u00e9\U0001F600"}}},
      {"BOM before JSONL", "p.jsonl", "\xEF\xBB\xBF{\"prompt\":\"a\"}\n", {{"1", "a"}}},
      {"an empty prompt", "p.jsonl", R"({"prompt":""})", {{"1", ""}}},
  };
  for (const Good& good : cases) {
    const auto records = parse(good.text, good.name);
    ASSERT_EQ(records.size(), good.records.size()) << good.what;
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].error, "") << good.what;
      EXPECT_EQ(records[i].id, good.records[i].first) << good.what;
      EXPECT_EQ(records[i].text, good.records[i].second) << good.what;
      EXPECT_FALSE(records[i].token_ids) << good.what;
    }
  }
}

TEST(Prompts, OtherFieldsOfARecord) {
  PromptsJob job;
  job.id_field = "custom";
  job.text_field = "question";
  const auto records = parse(R"({"custom":"a","question":"x","meta":{"k":[1,2]},"params":{"temperature":0.5}}
{"custom":"b","token_ids":[1,0,2147483647]})",
                             "p.jsonl", job);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].id, "a");
  EXPECT_EQ(records[0].text, "x");
  EXPECT_EQ(records[0].meta, R"({"k":[1,2]})");
  EXPECT_EQ(records[0].params.temperature, 0.5);
  EXPECT_EQ(records[0].place, "p.jsonl:1");
  EXPECT_EQ(records[1].token_ids, (std::vector<std::int32_t>{1, 0, 2147483647}));
  EXPECT_EQ(records[1].error, "");
  EXPECT_EQ(records[1].meta, "");
}

struct Bad {
  const char* line;
  std::vector<const char*> says;
};

TEST(Prompts, ABadLineIsARowThatNamesTheLine) {
  const Bad cases[] = {
      {"{\"prompt\": ", {"not valid JSON"}},
      {"not json", {"not valid JSON"}},
      {"{\"prompt\":\"a\",\"prompt\":\"b\"}", {"\"prompt\" occurs twice"}},
      {"{\"prompt\":\"\xff\"}", {"not valid UTF-8"}},
      {"[1,2]", {"object is needed"}},
      {"{}", {"exactly one of \"prompt\" and \"token_ids\""}},
      {R"({"prompt":"a","token_ids":[1]})", {"exactly one of"}},
      {R"({"prompt":7})", {"prompt must be a string", "number"}},
      {R"({"token_ids":"1,2"})", {"token_ids must be a list"}},
      {R"({"token_ids":[1,-2]})", {"token_ids holds -2"}},
      {R"({"token_ids":[1.5]})", {"token_ids holds 1.5"}},
      {R"({"token_ids":[2147483648]})", {"token_ids holds 2147483648"}},
      {R"({"id":[1],"prompt":"a"})", {"id must be a string"}},
      {R"({"messages":[{"role":"user","content":"hi"}]})", {"messages", "chat template"}},
      {R"({"prompt":"a","params":{"temprature":1}})", {"temprature", "temperature"}},
      {R"({"prompt":"a","params":{"top_p":7}})", {"top_p"}},
      {R"({"prompt":"a","params":3})", {"params"}},
  };
  for (const Bad& bad : cases) {
    const auto records = parse(std::string(R"({"prompt":"fine"})") + "\n" + bad.line + "\n" + R"({"prompt":"also"})");
    ASSERT_EQ(records.size(), 3U) << bad.line;
    EXPECT_EQ(records[0].error + records[2].error, "");
    EXPECT_EQ(records[1].id.empty(), false);
    EXPECT_TRUE(records[1].error.starts_with("p.jsonl:2: ")) << records[1].error;
    for (const char* word : bad.says) EXPECT_TRUE(mentions(records[1].error, {word}));
  }
  EXPECT_TRUE(mentions(parse("fine\n\xC3\x28\n", "p.txt").at(1).error, {"p.txt:2", "not valid UTF-8"}));
}

TEST(Prompts, AFileThatCannotBeRunAtAll) {
  for (const char* text : {"", "\n \r\n\t\n", "\xEF\xBB\xBF"})
    EXPECT_TRUE(mentions(complaint([&] { parse(text, "p.txt"); }), {"p.txt", "no prompts"}));
  EXPECT_TRUE(mentions(complaint([] { parse("{\"id\":\"a\",\"prompt\":\"x\"}\n{\"id\":\"a\",\"prompt\":\"y\"}"); }),
                       {"p.jsonl:2", "\"a\"", "p.jsonl:1"}));
  EXPECT_TRUE(mentions(complaint([] { parse("{\"id\":2,\"prompt\":\"x\"}\n{\"prompt\":\"y\"}"); }), {"\"2\""}));
  PromptsJob job;
  job.files = {"/nowhere/p.txt"};
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"/nowhere/p.txt"}));
}

TEST(Prompts, SelectionCountsPromptsNotLines) {
  PromptsJob job;
  const auto ids = [&](const std::string& text) {
    std::string joined;
    for (const PromptRecord& r : parse(text, "p.txt", job)) joined += r.id + " ";
    return joined;
  };
  const std::string text = "a\n\nb\nc\n\nd\n";  // ids 1 3 4 6
  job.select.offset = 1;
  EXPECT_EQ(ids(text), "3 4 6 ");
  job.select.limit = 2;
  EXPECT_EQ(ids(text), "3 4 ");
  job.select.offset = 0;
  job.select.limit = 100;
  EXPECT_EQ(ids(text), "1 3 4 6 ");
  job.select.offset = 4;
  EXPECT_TRUE(mentions(complaint([&] { ids(text); }), {"p.txt", "no prompts", "prompts.select"}));
}

}  // namespace
}  // namespace tpinfer
