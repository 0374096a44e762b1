#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.hpp"
#include "model/families_tokenizers.hpp"
#include "real_tokenizers.hpp"
#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

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

Json manifest() { return read_json_file((kShared / "golden/tokenizers/manifest.json").string()); }

class RealTokenizers : public testing::TestWithParam<RealTokenizer> {};

TEST_P(RealTokenizers, AgreesWithTheReference) {
  const std::string& name = GetParam().name;
  std::string reason;
  const Tokenizer* tokenizer = real_tokenizer(name, reason);
  if (!tokenizer) GTEST_SKIP() << reason;
  const auto golden = kShared / "golden/tokenizers";
  const Json counts = manifest()["models"][name];
  EXPECT_EQ(expect_golden(*tokenizer, golden / (name + ".jsonl")), counts["cases"].get<std::size_t>());
  EXPECT_EQ(expect_stream(*tokenizer, golden / "stream" / (name + ".jsonl")),
            counts["stream_cases"].get<std::size_t>());
}

INSTANTIATE_TEST_SUITE_P(Text, RealTokenizers, testing::ValuesIn(real_tokenizers()),
                         [](const auto& one) { return test_name(one.param.name); });

TEST(TokenizerGolden, AllModelsAreTested) {
  if (!std::filesystem::exists(kShared / "golden")) GTEST_SKIP() << kShared << " is absent";
  const Json models = manifest()["models"];
  ASSERT_EQ(models.size(), 21U);
  std::size_t cases = 0, stream_cases = 0;
  for (const RealTokenizer& real : real_tokenizers()) {
    cases += models.at(real.name)["cases"].get<std::size_t>();
    stream_cases += models.at(real.name)["stream_cases"].get<std::size_t>();
  }
  EXPECT_EQ(cases, 8256U);
  EXPECT_EQ(stream_cases, 5008U);
}

TEST(TokenizerGolden, SmallTokenizersAgree) {
  const auto folder = kShared / "golden/tokenizers/synthetic";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is absent";
  constexpr std::string_view kEnding = ".tokenizer.json";
  std::size_t files = 0, lines = 0, streams = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(kEnding)) continue;
    const TemporaryFolder place;
    std::filesystem::create_symlink(entry.path(), place.path() / "tokenizer.json");
    const std::string name = file.substr(0, file.size() - kEnding.size());
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = Tokenizer::load(place.path());
    lines += expect_golden(tokenizer, folder / (name + ".jsonl"));
    if (const auto stream = folder / "stream" / (name + ".jsonl"); std::filesystem::exists(stream))
      streams += expect_stream(tokenizer, stream);
    ++files;
  }
  EXPECT_EQ(files, 25U);
  EXPECT_EQ(lines, 9331U);
  EXPECT_EQ(streams, 1085U);
}

}  // namespace
}  // namespace tpinfer::test
