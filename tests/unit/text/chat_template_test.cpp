#include "text/chat_template.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "core/error.hpp"
#include "template_files.hpp"

namespace tpinfer::test {
namespace {

namespace fs = std::filesystem;

// Sets the clock of strftime_now for one test.
class Clock {
 public:
  Clock(const char* seconds, const char* zone) {
    ::setenv("SOURCE_DATE_EPOCH", seconds, 1);
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  ~Clock() {
    ::unsetenv("SOURCE_DATE_EPOCH");
    ::unsetenv("TZ");
    ::tzset();
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
};

class ChatTemplates : public testing::Test {
 protected:
  void config(const Json& json) const { files_.write("tokenizer_config.json", json.dump()); }
  std::string render(const Json& messages, const Json* tools = nullptr) const {
    return ChatTemplate::load(folder_).render({.messages = &messages, .tools = tools});
  }
  std::string complaint_of_load() const {
    try {
      ChatTemplate::load(folder_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::input);
      return error.what();
    }
    return "loaded";
  }

  const TemporaryFolder files_;
  const fs::path folder_ = files_.path();
  const Json hi_ = {{{"role", "user"}, {"content", "hi"}}};
};

TEST_F(ChatTemplates, SpecialTokensAreTextsOrObjects) {
  config(
      {{"chat_template",
        "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token is defined }}|{{ additional_special_tokens }}"},
       {"bos_token", "<s>"},
       {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
       {"pad_token", nullptr},
       {"additional_special_tokens", {"<a>", {{"content", "<b>"}}}}});
  files_.write("special_tokens_map.json", R"({"unk_token": {"content": "<unk>"}, "bos_token": "<other>"})");
  EXPECT_EQ(render(hi_), "<s>|</s>|<unk>|False|['<a>', '<b>']");
}

TEST_F(ChatTemplates, ToolUseIsTakenWhenToolsAreGiven) {
  config({{"chat_template",
           {{{"name", "default"}, {"template", "plain {{ tools }}"}},
            {{"name", "tool_use"}, {"template", "with {{ tools[0].name }}"}}}}});
  const Json tools = {{{"name", "f"}}};
  EXPECT_EQ(render(hi_), "plain None");
  EXPECT_EQ(render(hi_, &tools), "with f");
  const Json null;
  EXPECT_EQ(render(hi_, &null), "plain None");
}

TEST_F(ChatTemplates, FilesOverruleTheConfig) {
  EXPECT_FALSE(ChatTemplate::exists(folder_));
  config({{"bos_token", "<s>"}});
  EXPECT_FALSE(ChatTemplate::exists(folder_));
  EXPECT_NE(complaint_of_load().find("no chat template"), std::string::npos);
  config({{"chat_template", "config"}, {"bos_token", "<s>"}});
  EXPECT_TRUE(ChatTemplate::exists(folder_));
  EXPECT_EQ(render(hi_), "config");
  files_.write("chat_template.jinja", "file {{ bos_token }}\n");
  EXPECT_EQ(render(hi_), "file <s>");
  fs::create_directory(folder_ / "additional_chat_templates");
  files_.write("additional_chat_templates/tool_use.jinja", "tools");
  const Json tools = Json::array();
  EXPECT_EQ(render(hi_, &tools), "tools");
  EXPECT_EQ(render(hi_), "file <s>");
  files_.write("job.jinja", "job {{ bos_token }}");
  EXPECT_EQ(ChatTemplate::load(folder_, folder_ / "job.jinja").render({.messages = &hi_, .tools = &tools}), "job <s>");
  EXPECT_EQ(ChatTemplate::from_file(folder_ / "job.jinja").render({.messages = &hi_}), "job ");
}

TEST_F(ChatTemplates, WhatIsWrongWithAFolder) {
  config({{"chat_template", 5}});
  EXPECT_NE(complaint_of_load().find("tokenizer_config.json: chat_template must be a text or a list"),
            std::string::npos);
  config({{"chat_template", {{{"name", "default"}}}}});
  EXPECT_NE(complaint_of_load().find("needs the texts"), std::string::npos);
  config({{"chat_template", "{{ a"}});
  EXPECT_NE(complaint_of_load().find("tokenizer_config.json: chat_template, line 1:"), std::string::npos);
  config({{"chat_template", {{{"name", "rag"}, {"template", "x"}}}}});
  EXPECT_THROW(render(hi_), Error);
  // a template that is not asked for may be broken
  config({{"chat_template", {{{"name", "tool_use"}, {"template", "{{"}}, {{"name", "default"}, {"template", "x"}}}}});
  EXPECT_EQ(render(hi_), "x");
  const Json tools = Json::array();
  EXPECT_THROW(render(hi_, &tools), jinja::TemplateError);
}

TEST_F(ChatTemplates, VariablesWinOverSpecialTokens) {
  config({{"chat_template", "{{ bos_token }}{{ documents }}{{ thinking }}{{ add_generation_prompt }}"},
          {"bos_token", "<s>"}});
  const Json variables = {{"bos_token", "B"}, {"thinking", false}};
  const Json documents = {{{"title", "t"}}};
  EXPECT_EQ(ChatTemplate::load(folder_).render(
                {.messages = &hi_, .documents = &documents, .add_generation_prompt = false, .variables = &variables}),
            "B[{'title': 't'}]FalseFalse");
}

TEST_F(ChatTemplates, NullsOfAMessageAreDropped) {
  config({{"chat_template", "{% for m in messages %}{{ m.content is defined }}{{ m.list }}{% endfor %}"}});
  EXPECT_EQ(render({{{"content", nullptr}, {"list", {nullptr}}}, {{"content", ""}}}), "False[None]True");
}

TEST_F(ChatTemplates, TheClockCanBeSet) {
  config({{"chat_template", "{{ strftime_now('%Y-%m-%d %H:%M:%S.%f%z%Z|%A %%z') }}{{ strftime_now('') }}"}});
  {
    const Clock clock("1738555506", "UTC");
    EXPECT_EQ(render(hi_), "2025-02-03 04:05:06.000000|Monday %z");
  }
  {
    const Clock clock("1738555506", "Asia/Tokyo");
    EXPECT_EQ(render(hi_).substr(0, 16), "2025-02-03 13:05");
  }
  {
    const Clock clock("soon", "UTC");
    EXPECT_THROW(render(hi_), Error);
  }
  EXPECT_GT(std::stoi(render(hi_).substr(0, 4)), 2024);
}

TEST_F(ChatTemplates, ManyThreadsRenderAtOnce) {
  config({{"chat_template",
           "{% set ns = namespace(n=0) %}{% macro f(x) %}<{{ x }}>{% endmacro %}{% for m in messages %}{% set ns.n = "
           "ns.n + 1 %}"
           "{{ f(m.content) }}{% endfor %}{{ ns.n }}{{ [1, 'a'] | tojson }}"}});
  const ChatTemplate chat = ChatTemplate::load(folder_);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&chat, &wrong, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string word = std::to_string(t * 1000 + i);
        const Json messages = {{{"content", word}}, {{"content", "x"}}};
        wrong[static_cast<std::size_t>(t)] +=
            chat.render({.messages = &messages}) == "<" + word + "><x>2[1, \"a\"]" ? 0 : 1;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

// One golden file: the template of a real model and what the reference makes of many conversations.
void expect_conversations(const Json& golden, const fs::path& shared, int& cases) {
  const fs::path file = shared / golden["template_file"].get<std::string>();
  const bool bare = file.extension() == ".jinja";
  const Json template_text =
      bare ? Json(read_text_file(file.string())) : read_json_file(file.string())["chat_template"];
  const TemporaryFolder folder;
  Json config = golden["special_tokens"];
  config["chat_template"] = template_text;
  folder.write("tokenizer_config.json", config.dump());
  const ChatTemplate chat = ChatTemplate::load(folder.path());
  for (const Json& c : golden["cases"]) {
    ++cases;
    SCOPED_TRACE(golden["model"].get<std::string>() + " " + c["tag"].get<std::string>());
    std::string text, error;
    auto kind = jinja::TemplateError::Kind::runtime;
    try {
      text = chat.render({.messages = &c["messages"],
                          .tools = &c["tools"],
                          .add_generation_prompt = c["add_generation_prompt"].get<bool>(),
                          .variables = &c["kwargs"]});
    } catch (const jinja::TemplateError& failure) {
      error = failure.what();
      kind = failure.kind();
    }
    if (c.contains("rendered")) {
      EXPECT_EQ(text, c["rendered"].get<std::string>()) << error;
    } else {
      EXPECT_FALSE(error.empty()) << text;
      EXPECT_EQ(kind == jinja::TemplateError::Kind::raised, c["error_kind"] == "raised");
      if (c["error_kind"] == "raised") {
        EXPECT_EQ(error, c["error"].get<std::string>());
      }
    }
  }
}

TEST(ChatTemplateGolden, RealTemplates) {
  if (!fs::exists(kSharedGolden)) GTEST_SKIP() << kSharedGolden << " is not there";
  const Clock clock("1738555506", "UTC");
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(kSharedGolden))
    if (entry.path().extension() == ".json")
      expect_conversations(read_json_file(entry.path().string()), kShared, cases);
  EXPECT_EQ(cases, 591);
}

}  // namespace
}  // namespace tpinfer::test
