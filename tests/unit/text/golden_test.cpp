#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.hpp"
#include "model/families_tokenizers.hpp"
#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

using Ids = std::vector<std::int32_t>;

// Every line of a .jsonl file against the tokenizer; the number of lines.
std::size_t expect_golden(const Tokenizer& tokenizer, const std::filesystem::path& file) {
  const auto records = read_lines(file);
  for (const Json& record : records) {
    const auto text = record["text"].get<std::string>();
    const Ids ids = tokenizer.encode(text, true);
    const Ids plain = tokenizer.encode(text, false);
    EXPECT_EQ(ids, record["ids"].get<Ids>()) << record["text"];
    EXPECT_EQ(plain, record["ids_no_special"].get<Ids>()) << record["text"];
    EXPECT_EQ(tokenizer.decode(plain, false), record["decoded"].get<std::string>()) << record["text"];
    EXPECT_EQ(tokenizer.decode(ids, true), record["decoded_skip"].get<std::string>()) << record["text"];
    if (testing::Test::HasFailure()) break;  // one line is enough to look at
  }
  return records.size();
}

std::string decode_one_by_one(const Tokenizer& tokenizer, const Ids& ids, bool skip) {
  IncrementalDecoder decoder(tokenizer, skip);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

std::size_t expect_stream(const Tokenizer& tokenizer, const std::filesystem::path& file) {
  const auto records = read_lines(file);
  for (const Json& record : records) {
    const Ids ids = record["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.decode(ids, false), record["decoded"].get<std::string>()) << record["ids"];
    EXPECT_EQ(tokenizer.decode(ids, true), record["decoded_skip"].get<std::string>()) << record["ids"];
    EXPECT_EQ(decode_one_by_one(tokenizer, ids, false), record["decoded"].get<std::string>()) << record["ids"];
    EXPECT_EQ(decode_one_by_one(tokenizer, ids, true), record["decoded_skip"].get<std::string>()) << record["ids"];
    const auto prefixes = record["prefixes"].get<std::vector<std::string>>();
    for (std::size_t n = 0; n < prefixes.size(); ++n)
      EXPECT_EQ(tokenizer.decode(std::span(ids).first(n + 1), false), prefixes[n]) << record["ids"];
    if (testing::Test::HasFailure()) break;
  }
  return records.size();
}

std::vector<std::string> made_up_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "tokenizers"))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string test_name(const std::string& name) {
  std::string clean;
  for (const char c : name) clean += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return clean;
}

class MadeUpTokenizer : public testing::TestWithParam<std::string> {};

TEST_P(MadeUpTokenizer, AgreesWithTheReference) {
  const auto folder = kData / "tokenizers" / GetParam();
  const Tokenizer tokenizer = Tokenizer::load(folder, kTokenizerClasses);
  EXPECT_GE(expect_golden(tokenizer, folder / "golden.jsonl"), 40U);
  if (std::filesystem::exists(folder / "stream.jsonl")) {
    EXPECT_GT(expect_stream(tokenizer, folder / "stream.jsonl"), 50U);
  }
}

INSTANTIATE_TEST_SUITE_P(Text, MadeUpTokenizer, testing::ValuesIn(made_up_names()),
                         [](const auto& one) { return test_name(one.param); });

TEST(TrainedModel, TokenizerCasesAgree) {
  const auto folder = kData / "models/tiny-llama";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const Json cases = read_json_file((folder / "golden.json").string()).at("tokenizer_cases");
  ASSERT_GT(cases.size(), 10U);
  for (const Json& one : cases) {
    const auto text = one["text"].get<std::string>();
    const Ids ids = tokenizer.encode(text, true);
    EXPECT_EQ(ids, one["ids"].get<Ids>()) << one["text"];
    EXPECT_EQ(tokenizer.encode(text, false), one["ids_without_special"].get<Ids>()) << one["text"];
    EXPECT_EQ(tokenizer.decode(ids, true), one["decoded"].get<std::string>()) << one["text"];
    EXPECT_EQ(tokenizer.decode(ids, false), one["decoded_with_special"].get<std::string>()) << one["text"];
  }
  EXPECT_EQ(tokenizer.vocab_size(), 2048);
  EXPECT_EQ(tokenizer.bos_token_id(), 1);
  EXPECT_EQ(tokenizer.eos_token_id(), 2);
  EXPECT_EQ(tokenizer.token_to_id("<s>"), 1);
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(2), "</s>");
  EXPECT_TRUE(tokenizer.is_special(0));
  EXPECT_FALSE(tokenizer.is_special(300));
}

TEST(TrainedModel, PromptsAndAnswersOfAllModelsAgree) {
  std::size_t cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "models")) {
    if (!std::filesystem::exists(entry.path() / "golden.json")) continue;
    const Tokenizer tokenizer = Tokenizer::load(entry.path());
    const Json golden = read_json_file((entry.path() / "golden.json").string());
    for (const Json& one : golden.at("cases")) {
      if (one.contains("prompt") && one.value("add_special_tokens", true) && !one.contains("messages")) {
        EXPECT_EQ(tokenizer.encode(one["prompt"].get<std::string>(), true), one["input_ids"].get<Ids>());
      }
      EXPECT_EQ(tokenizer.decode(one["greedy_ids"].get<Ids>(), true), one["greedy_text"].get<std::string>());
      ++cases;
    }
  }
  EXPECT_GT(cases, 20U);
}

struct RealTokenizer {
  std::string name;
  std::string file;  // below the shared folder; "": made by its script, which takes seconds
};

const RealTokenizer kReal[] = {
    {"llama-2-7b-hf", "real/llama-2-7b-hf/tokenizer.json"},
    {"gpt2", "golden/tokenizers/gpt2.tokenizer.json"},
    {"deepseek-llm", "golden/tokenizers/deepseek-llm.tokenizer.json"},
    {"dolphin-2.5-mixtral-8x7b", "golden/tokenizers/dolphin-2.5-mixtral-8x7b.tokenizer.json"},
    {"falcon-40b", "real/falcon-40b/tokenizer.json"},
    {"gpt-neox-20b", "real/gpt-neox-20b/tokenizer.json"},
    {"mistral-7b-instruct-v0.3", "golden/tokenizers/mistral-7b-instruct-v0.3.tokenizer.json"},
    {"mixtral-8x7b-v0.1", "real/mixtral-8x7b-v0.1/tokenizer.json"},
    {"olmoe-1b-7b-0924", "real/olmoe-1b-7b-0924/tokenizer.gpt-neox-olmo-dolma-v1_5.json"},
    {"opt", "golden/tokenizers/opt.tokenizer.json"},
    {"phi-2", "real/phi-2/tokenizer.json"},
    {"phi-3-mini-4k-instruct", "real/phi-3-mini-4k-instruct/tokenizer.json"},
    {"redpajama-incite-7b-base", "real/redpajama-incite-7b-base/tokenizer.json"},
    {"starcoder", "real/starcoder/tokenizer.wizardcoder.json"},
    {"starcoder2-7b", "golden/tokenizers/starcoder2-7b.tokenizer.json"},
    {"starcoderbase-1b", "golden/tokenizers/starcoderbase-1b.tokenizer.json"},
    {"qwen3-30b-a3b", ""},
    {"qwen1.5-moe-a2.7b", ""},
    {"qwen2.5-7b-instruct", ""},
    {"llama-3-8b", ""},
    {"gpt-oss-20b", ""},
};

class RealTokenizers : public testing::TestWithParam<RealTokenizer> {};

TEST_P(RealTokenizers, AgreesWithTheReference) {
  const auto& [name, file] = GetParam();
  const auto golden = kShared / "golden/tokenizers" / (name + ".jsonl");
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is absent: it is not part of the repository";
  if (file.empty() && name != "qwen3-30b-a3b" && !std::getenv("TPINFER_ALL_TOKENIZERS"))
    GTEST_SKIP() << "one that takes long to make is enough; set TPINFER_ALL_TOKENIZERS for all";
  const TemporaryFolder folder;
  if (file.empty()) {
    const auto script = kShared / "tools/tokenizers/build_tokenizer_json.py";
    const std::string command =
        "python3 " + script.string() + " " + name + " " + (folder.path() / "tokenizer.json").string() + " > /dev/null";
    if (std::system(command.c_str()) != 0) GTEST_SKIP() << script << " can not make this tokenizer here";
  } else {
    std::filesystem::create_symlink(kShared / file, folder.path() / "tokenizer.json");
  }
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_GT(expect_golden(tokenizer, golden), 350U);
  EXPECT_GT(expect_stream(tokenizer, kShared / "golden/tokenizers/stream" / (name + ".jsonl")), 200U);
}

INSTANTIATE_TEST_SUITE_P(Text, RealTokenizers, testing::ValuesIn(kReal),
                         [](const auto& one) { return test_name(one.param.name); });

}  // namespace
}  // namespace tpinfer::test
