#include <gtest/gtest.h>

#include "prompts/read_prompts.hpp"

namespace tpinfer {
namespace {

using test_files::complaint;
using test_files::mentions;
using test_files::packed;
using test_files::parse;
using test_files::read_prompts;
using test_files::TemporaryFolder;
using test_files::write_text;

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
      {"text by its first character", "prompts", "one\n", {{"1", "one"}}},
      {"JSONL by its first character", "p.data", "\n  {\"prompt\": \"x\"}\n", {{"2", "x"}}},
      {"ids",
       "p.jsonl",
       "{\"id\":\"q17\",\"prompt\":\"a\"}\r\n{\"id\":5,\"prompt\":\"b\"}",
       {{"q17", "a"}, {"5", "b"}}},
      {"escapes", "p.ndjson", R"({"prompt":"a\nb\u00e9\ud83d\ude00"})", {{"1", "a\nb\u00e9\U0001F600"}}},
      {"BOM before JSONL", "p.jsonl", "\xEF\xBB\xBF{\"prompt\":\"a\"}\n", {{"1", "a"}}},
      {"an empty prompt", "p.jsonl", R"({"prompt":""})", {{"1", ""}}},
      {"a null is as if it were not there", "p.jsonl", R"({"id":null,"prompt":"a","messages":null})", {{"1", "a"}}},
      {"CSV", "p.csv", "id,prompt\na,one\nb,two\n", {{"a", "one"}, {"b", "two"}}},
      {"CSV with CRLF and BOM", "p.csv", "\xEF\xBB\xBFprompt,id\r\none,a\r\n", {{"a", "one"}}},
      {"CSV without ids: where a record begins",
       "p.csv",
       "prompt\n\n\"a\nb\"\n\"say \"\"hi\"\", she said\"\nplain \"quotes\"\n",
       {{"3", "a\nb"}, {"5", "say \"hi\", she said"}, {"6", "plain \"quotes\""}}},
      {"quoted CRLF stays", "p.csv", "prompt\r\n\"a\r\nb\"\r\n", {{"2", "a\r\nb"}}},
      {"an empty quoted prompt", "p.csv", "id,prompt\na,\"\"\nb,", {{"a", ""}, {"b", ""}}},
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
  EXPECT_TRUE(records[0].place.ends_with("/p.jsonl:1"));
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
      {"{}", {"exactly one of \"prompt\", \"messages\" and \"token_ids\""}},
      {R"({"prompt":"a","token_ids":[1]})", {"exactly one of"}},
      {R"({"promt":"a"})", {"exactly one of", "(promt is unknown, did you mean prompt?)"}},
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
      {R"({"prompt":"a","temperature":0.5})", {"temperature stands beside \"params\""}},
      {R"({"prompt":"a","max_tokens":5})", {"max_tokens stands beside \"params\""}},
      {R"({"prompt":"a","sampling_params":{"n":2}})", {"unknown field sampling_params", "\"params\""}},
  };
  for (const Bad& bad : cases) {
    const auto records = parse(std::string(R"({"prompt":"fine"})") + "\n" + bad.line + "\n" + R"({"prompt":"also"})");
    ASSERT_EQ(records.size(), 3U) << bad.line;
    EXPECT_EQ(records[0].error + records[2].error, "");
    EXPECT_EQ(records[1].id.empty(), false);
    EXPECT_NE(records[1].error.find("p.jsonl:2: "), std::string::npos) << records[1].error;
    for (const char* word : bad.says) EXPECT_TRUE(mentions(records[1].error, {word}));
  }
  EXPECT_TRUE(mentions(parse("fine\n\xC3\x28\n", "p.txt").at(1).error, {"p.txt:2", "not valid UTF-8"}));
}

TEST(Prompts, ABadCsvRecordIsARowThatNamesItsLine) {
  const auto records =
      parse("id,prompt,x\na,\"one\ntwo\",1\nb,two\nc,\"d\"e,3\nd,four,\xff\ne,\"never\n closed,1\n", "p.csv");
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[0].error, "");
  EXPECT_EQ(records[0].meta, R"({"x":"1"})");
  EXPECT_TRUE(mentions(records[1].error, {"p.csv:4: ", "2 fields", "names 3"}));
  EXPECT_TRUE(mentions(records[2].error, {"p.csv:5: ", "closing quote of field 2"}));
  EXPECT_TRUE(mentions(records[3].error, {"p.csv:6: ", "UTF-8"}));
  EXPECT_TRUE(mentions(records[4].error, {"p.csv:7: ", "never closed"}));
}

TEST(Prompts, CsvColumnsBesidesAreMeta) {
  PromptsJob job;
  job.id_field = "key";
  job.text_field = "question";
  const auto records = parse("b,question,a,key\n1,what?,\"x,\"\"y\",k1\n", "p.csv", job);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].id, "k1");
  EXPECT_EQ(records[0].text, "what?");
  EXPECT_EQ(records[0].meta, R"({"b":"1","a":"x,\"y"})");
}

TEST(Prompts, AFileThatCannotBeRunAtAll) {
  const auto fault = [](const std::string& text, const std::string& name) {
    return complaint([&] { parse(text, name); });
  };
  for (const char* text : {"", "\n \r\n\t\n", "\xEF\xBB\xBF"})
    EXPECT_TRUE(mentions(fault(text, "p.txt"), {"p.txt", "no prompts"}));
  EXPECT_TRUE(mentions(fault("", "p.csv"), {"p.csv", "no prompts"}));
  EXPECT_TRUE(mentions(fault("id,prompt\n", "p.csv"), {"p.csv", "no prompts"}));
  EXPECT_TRUE(mentions(fault("id,text\na,b\n", "p.csv"), {"p.csv:1: ", "no column \"prompt\"", "text_field"}));
  EXPECT_TRUE(mentions(fault("id;prompt\na;b\n", "p.csv"), {"separated by commas"}));
  EXPECT_TRUE(mentions(fault("prompt,x,x\na,b,c\n", "p.csv"), {"\"x\" twice"}));
  EXPECT_TRUE(mentions(fault("[{\"prompt\":\"x\"}]", "p.json"), {"JSON list", "JSONL"}));
  EXPECT_TRUE(mentions(fault(std::string("PAR1\0\0", 6), "p.parquet"), {"binary data"}));
  PromptsJob job;
  job.files = {"/nowhere/p.txt"};
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"/nowhere/p.txt", "No such file"}));
  job.files = {"/nowhere/*.txt"};
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"/nowhere/*.txt", "no file matches"}));
  job.files = {};
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"prompts.file"}));
}

std::string ids_of(const std::vector<PromptRecord>& records) {
  std::string joined;
  for (const PromptRecord& r : records) joined += r.id + "=" + r.text + r.error + " ";
  return joined;
}

TEST(Prompts, SeveralFilesAndPatterns) {
  const TemporaryFolder folder;
  write_text(folder / "b/2.txt", "three\n\nfour");
  write_text(folder / "b/10.txt", "two");
  write_text(folder / "a.jsonl", R"({"prompt":"one"})");
  write_text(folder / "b/x[1].txt", "five");
  const auto path = [&](const char* name) { return (folder / name).string(); };
  PromptsJob job;
  job.files = {path("a.jsonl"), path("b/[0-9]*.txt")};
  EXPECT_EQ(ids_of(read_prompts(job)), "a.jsonl:1=one b/10.txt:1=two b/2.txt:1=three b/2.txt:3=four ");
  job.files = {path("b/1*")};  // one file: the line alone
  EXPECT_EQ(ids_of(read_prompts(job)), "1=two ");
  job.files = {path("b/x[1].txt")};  // there is a file of this very name
  EXPECT_EQ(ids_of(read_prompts(job)), "1=five ");
  job.files = {path("a.jsonl"), path("*.jsonl")};
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"a.jsonl", "twice"}));
  job.files = {path("a.jsonl"), path("c.txt")};  // told before the first is read
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"c.txt", "No such file"}));
  job.files = {path("a.jsonl"), path("b/2.txt")};
  job.select = {.offset = 1, .limit = 1, .shard = {}};
  EXPECT_EQ(ids_of(read_prompts(job)), "b/2.txt:1=three ");
}

TEST(Prompts, PackedFilesAreUnpacked) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 40000; ++i) lines += "{\"prompt\":\"line " + std::to_string(i) + "\"}\n";
  PromptsJob job;
  // two members, and a name that does not tell
  job.files = {write_text(folder / "p.jsonl.gz", packed(lines) + packed("{\"prompt\":\"last\"}\n"))};
  const auto records = read_prompts(job);
  ASSERT_EQ(records.size(), 40001U);
  EXPECT_EQ(records[39999].text, "line 39999");
  EXPECT_EQ(records[40000].text, "last");
  EXPECT_EQ(records[40000].id, "40001");
  job.files = {write_text(folder / "p.csv.gz", packed("prompt\n\"a\nb\"\n"))};
  EXPECT_EQ(read_prompts(job).at(0).text, "a\nb");
  job.files = {write_text(folder / "p.txt", packed("\xEF\xBB\xBFone\r\ntwo"))};
  EXPECT_EQ(ids_of(read_prompts(job)), "1=one 2=two ");
  const std::string whole = packed(lines);
  job.files = {write_text(folder / "cut.gz", whole.substr(0, whole.size() / 2))};
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"cut.gz", "ends in the middle"}));
  std::string damaged = whole;
  damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
  job.files = {write_text(folder / "damaged.gz", damaged)};
  EXPECT_TRUE(mentions(complaint([&] { read_prompts(job); }), {"damaged.gz", "damaged"}));
}

TEST(Prompts, ARecordOfTenMegabytes) {
  const std::string text(10'000'000, 'x');
  const auto records = parse("{\"prompt\":\"" + text + "\"}\n{\"prompt\":\"y\"}\n", "p.data");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].text, text);
  EXPECT_EQ(records[1].text, "y");
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
