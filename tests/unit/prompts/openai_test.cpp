#include <gtest/gtest.h>

#include "prompts/read_prompts.hpp"

namespace tpinfer {
namespace {

using test_files::complaint;
using test_files::mentions;
using test_files::parse;
using test_files::TemporaryFolder;
using test_files::write_text;

// Writes what it is given, so that a test sees it.
constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}|{{ m.content }}"
    "{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments | tojson }}{% endif %}]{% endfor %}"
    "{% if tools %}T{{ tools | length }}{% endif %}{% if documents %}D{{ documents | length }}{% endif %}"
    "{% if messages[0].content == 'bad' %}{{ raise_exception('Roles must alternate') }}{% endif %}"
    "{{ mood }}{{ '>' if add_generation_prompt }}";

/// A tokenizer's folder with that template, and others by name.
class ChatFolder {
 public:
  explicit ChatFolder(const char* source = kTemplate) {
    Json config{{"bos_token", "<s>"}};
    config["chat_template"] = Json::array({{{"name", "default"}, {"template", source}},
                                           {{"name", "tool_use"}, {"template", std::string("tools:") + source}},
                                           {{"name", "rag"}, {"template", std::string("rag:") + source}}});
    write_text(folder_ / "tokenizer_config.json", config.dump());
  }
  const test_files::fs::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

PromptRecord one(const std::string& line, const PromptsJob& job = {}) {
  static const ChatFolder folder;
  auto records = parse(line, "p.jsonl", job, folder.path());
  EXPECT_EQ(records.size(), 1U);
  return std::move(records.at(0));
}

TEST(Chat, TheTextIsWhatTheTemplateMakesOfTheRecord) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages":[{"role":"user","content":"hi"}]})", "<s>[user|hi]>"},
      {R"({"messages":[{"role":"user","content":"hi","name":null}],"documents":[{"text":"d"}]})", "<s>[user|hi]D1>"},
      {R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function"}]})", "tools:<s>[user|hi]T1>"},
      {R"({"messages":[{"role":"user","content":"hi"}],"chat_template":"rag"})", "rag:<s>[user|hi]>"},
      {R"({"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"mood":"glad"}})", "<s>[user|hi]glad>"},
      {R"({"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"add_generation_prompt":false}})",
       "<s>[user|hi]"},
  };
  for (const auto& [line, text] : cases) {
    const PromptRecord record = one(line);
    EXPECT_EQ(record.error, "") << line;
    EXPECT_EQ(record.text, text) << line;
    EXPECT_TRUE(record.is_chat);
  }
}

TEST(Chat, TheSystemMessageOfTheJob) {
  PromptsJob job;
  job.system = "Be brief.";
  EXPECT_EQ(one(R"({"messages":[{"role":"user","content":"hi"}]})", job).text, "<s>[system|Be brief.][user|hi]>");
  EXPECT_EQ(one(R"({"messages":[{"role":"system","content":"mine"}]})", job).text, "<s>[system|mine]>");
  EXPECT_EQ(one(R"({"prompt":"hi"})", job).text, "hi");
}

TEST(Chat, ARecordThatCannotBeRenderedFailsWithTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages":[{"role":"user","content":"bad"}]})", "p.jsonl:1: Roles must alternate"},
      {R"({"messages":[]})", "p.jsonl:1: messages is an empty list"},
      {R"({"messages":{"role":"user"}})", "messages must be a list, found object"},
      {R"({"messages":["hi"]})", "messages[0] must be an object, found string"},
      {R"({"messages":[{"content":"hi"}]})", "messages[0] needs a \"role\""},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0] holds a part of the type \"image_url\""},
      {R"({"messages":[{"role":"user","content":"x"}],"tools":{}})", "tools must be a list"},
      {R"({"messages":[{"role":"user","content":"x"}],"chat_template":"none"})", "none is named \"none\""},
      {R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":[1]})", "chat_template_kwargs must be"},
      {R"({"messages":[{"role":"user","content":"x"}],"prompt":"y"})", "exactly one of"},
  };
  for (const auto& [line, words] : cases) EXPECT_TRUE(mentions(one(line).error, {words})) << line;
}

TEST(Chat, WhereThereIsNoTemplate) {
  const std::string chat = R"({"messages":[{"role":"user","content":"hi"}]})";
  const TemporaryFolder bare;
  const auto records = parse(chat + "\n{\"prompt\":\"x\"}", "p.jsonl", {}, bare.path());
  EXPECT_TRUE(mentions(records[0].error, {"p.jsonl:1: ", "needs a chat template", "prompts.chat_template"}));
  EXPECT_EQ(records[1].error, "");
  PromptsJob job;
  job.chat_template = "none";
  EXPECT_TRUE(mentions(one(chat, job).error, {"p.jsonl:1: ", "prompts.chat_template is none"}));
  job.chat_template = "/nowhere/t.jinja";
  EXPECT_TRUE(mentions(complaint([&] { one(chat, job); }), {"/nowhere/t.jinja"}));
  job.chat_template = write_text(bare / "t.jinja", "mine: {{ messages[0].content }}");
  EXPECT_EQ(one(chat, job).text, "mine: hi");
}

TEST(Chat, ABrokenTemplateEndsTheJobWhenItIsNeeded) {
  const ChatFolder broken("a\n{% if %}");
  const auto read = [&](const char* text) { return parse(text, "p.jsonl", {}, broken.path()); };
  EXPECT_EQ(read(R"({"prompt":"x"})").at(0).error, "");
  EXPECT_TRUE(mentions(complaint([&] { read(R"({"messages":[{"role":"user","content":"x"}]})"); }),
                       {"tokenizer_config.json", "line 2"}));
  PromptsJob job;
  job.chat_template = write_text(broken.path() / "t.jinja", "{{ x");
  EXPECT_TRUE(mentions(complaint([&] { parse(R"({"prompt":"x"})", "p.jsonl", job, broken.path()); }), {"t.jinja"}));
}

std::string chat_line(const std::string& more) {
  return R"({"custom_id":"c1","method":"POST","url":"/v1/chat/completions","body":{"model":"m",)"
         R"("messages":[{"role":"user","content":"hi"}])" +
         more + "}}";
}
std::string completion_line(const std::string& body) {
  return R"({"custom_id":"c2","method":"POST","url":"/v1/completions","body":{)" + body + "}}";
}

TEST(OpenAi, ParametersAreMapped) {
  const PromptRecord chat = one(chat_line(
      R"(,"max_completion_tokens":7,"temperature":0.5,"top_p":0.9,"n":2,"stop":"END","seed":5,"frequency_penalty":0.1,)"
      R"("presence_penalty":-0.2,"logit_bias":{"3":-100},"logprobs":true,"top_logprobs":4,"user":"u","stream":false,)"
      R"("metadata":{"k":"v"},"response_format":{"type":"text"},"tool_choice":null,"top_k":9,"min_tokens":2)"));
  EXPECT_EQ(chat.error, "");
  EXPECT_EQ(chat.id, "c1");
  EXPECT_EQ(chat.text, "<s>[user|hi]>");
  EXPECT_EQ(chat.meta, R"({"k":"v"})");
  SamplingRequest expected;
  expected.max_new_tokens = 7;
  expected.temperature = 0.5;
  expected.top_p = 0.9;
  expected.n = 2;
  expected.stop = {{"END"}};
  expected.seed = 5;
  expected.frequency_penalty = 0.1;
  expected.presence_penalty = -0.2;
  expected.logit_bias = {{{3, -100.0}}};
  expected.logprobs = OptionalInt(4);
  expected.top_k = 9;
  expected.min_new_tokens = 2;
  EXPECT_EQ(chat.params, expected);
  EXPECT_EQ(one(chat_line(R"(,"logprobs":true)")).params.logprobs, OptionalInt(0));
  EXPECT_FALSE(one(chat_line(R"(,"logprobs":false,"temperature":null)")).params.logprobs);

  const PromptRecord text = one(completion_line(R"("prompt":"once","max_tokens":3,"logprobs":2,"stop":["a","b"])"));
  EXPECT_EQ(text.error, "");
  EXPECT_EQ(text.id, "c2");
  EXPECT_EQ(text.text, "once");
  EXPECT_FALSE(text.is_chat);
  EXPECT_EQ(text.params.max_new_tokens, 3);
  EXPECT_EQ(text.params.logprobs, OptionalInt(2));
  EXPECT_EQ(text.params.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(one(completion_line(R"("prompt":[1,2,3])")).token_ids, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(one(completion_line(R"("prompt":["one"])")).text, "one");
}

TEST(OpenAi, PartsOfTextAndArgumentsOfCalls) {
  const std::string line =
      R"({"custom_id":"c","url":"/v1/chat/completions","body":{"messages":[)"
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}}]}],)"
      R"("tools":[{"type":"function"}]}})";
  EXPECT_EQ(one(line).text, "tools:<s>[user|a\nb][assistant|{\"x\": 1}]T1>");
}

TEST(OpenAi, WhatIsNotSupportedFailsByName) {
  const std::pair<std::string, std::vector<const char*>> cases[] = {
      {chat_line(R"(,"response_format":{"type":"json_object"})"), {"response_format is not supported", "json_object"}},
      {chat_line(R"(,"tool_choice":"auto")"), {"tool_choice is not supported"}},
      {chat_line(R"(,"stream":true)"), {"stream is not supported"}},
      {chat_line(R"(,"reasoning_effort":"low")"), {"reasoning_effort is not supported"}},
      {chat_line(R"(,"functions":[])"), {"functions is not supported"}},
      {chat_line(R"(,"temprature":1)"), {"temprature is not supported"}},
      {chat_line(R"(,"top_p":7)"), {"top_p", "7"}},
      {chat_line(R"(,"max_tokens":1,"max_completion_tokens":2)"), {"given twice"}},
      {chat_line(R"(,"top_logprobs":2)"), {"top_logprobs needs logprobs"}},
      {completion_line(R"("prompt":"x","suffix":"y")"), {"suffix is not supported"}},
      {completion_line(R"("prompt":"x","echo":true)"), {"echo is not supported"}},
      {completion_line(R"("prompt":"x","best_of":3)"), {"best_of is not supported"}},
      {completion_line(R"("prompt":["x","y"])"), {"2 prompts"}},
      {completion_line(R"("max_tokens":2)"), {"no prompt"}},
      {R"({"custom_id":"e","url":"/v1/embeddings","body":{"input":"x"}})", {"/v1/embeddings is not supported"}},
      {R"({"custom_id":"e","url":"/v1/completions","method":"GET","body":{}})", {"method must be POST"}},
      {R"({"custom_id":"e","body":7})", {"\"body\" that is an object"}},
      {R"({"custom_id":"e","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":)"
       R"([{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}]}})",
       {"messages[0]", "\"image_url\""}},
  };
  for (const auto& [line, says] : cases) {
    const PromptRecord record = one(line);
    EXPECT_TRUE(record.error.find("p.jsonl:1: ") != std::string::npos) << record.error;
    for (const char* word : says) EXPECT_TRUE(mentions(record.error, {word})) << line;
  }
}

TEST(OpenAi, TheFirstLineTellsAndTheJobMayToo) {
  const ChatFolder folder;
  const auto records = parse("\n" + chat_line("") + "\n{\"prompt\":\"x\"}\n", "p.jsonl", {}, folder.path());
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].error, "");
  EXPECT_TRUE(mentions(records[1].error, {"p.jsonl:3: ", "\"body\""}));
  PromptsJob job;
  job.format = PromptFormat::openai;
  EXPECT_EQ(parse(completion_line("\"prompt\":\"x\""), "p.txt", job).at(0).text, "x");
  job.format = PromptFormat::jsonl;
  EXPECT_TRUE(mentions(one(chat_line(""), job).error, {"exactly one of"}));
}

}  // namespace
}  // namespace tpinfer
