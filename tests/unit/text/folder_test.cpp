#include <gtest/gtest.h>

#include "core/error.hpp"
#include "model/families_tokenizers.hpp"
#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::string_view kGpt2Config = R"({"tokenizer_class": "GPT2Tokenizer"})";

Json config_with(const Json& more) {
  Json config = {{"tokenizer_class", "GPT2Tokenizer"}};
  if (!more.is_null()) config.update(more);
  return config;
}

/// vocab.json and merges.txt of the byte-level tokenizer of the random models.
class VocabularyFolder : public testing::Test {
 protected:
  void SetUp() override {
    const Json document = byte_level_document();
    Json vocab = document["model"]["vocab"];
    vocab["<|endoftext|>"] = 319;
    folder_.write("vocab.json", vocab.dump());
    std::string merges = "#version: 0.2\n";
    for (const Json& merge : document["model"]["merges"])
      merges += (merge.is_string() ? merge.get<std::string>()
                                   : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
                "\n";
    folder_.write("merges.txt", merges);
  }
  Tokenizer load(const Json& config) const {
    folder_.write("tokenizer_config.json", config.dump());
    return Tokenizer::load(folder_.path(), kTokenizerClasses);
  }
  std::string complaint() const {
    try {
      Tokenizer::load(folder_.path(), kTokenizerClasses);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::input);
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << error.what();
      return error.what();
    }
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(VocabularyFolder, GivesTheIdsOfItsTokenizerJson) {
  const Tokenizer tokenizer = load(Json::parse(kGpt2Config));
  const Tokenizer reference = Tokenizer::load(kData / "models/rand-llama-tied");
  for (const char* text : {"hello world", " it's 12 + 3\n\n  x", "<|endoftext|>a", "", "\xE5\xAD\x97 \xF0\x9F\x98\x80"})
    EXPECT_EQ(tokenizer.encode(text, false), reference.encode(text, false)) << text;
  EXPECT_EQ(tokenizer.vocab_size(), reference.vocab_size());
  EXPECT_EQ(tokenizer.eos_token_id(), 319);  // the default of the class
}

TEST_F(VocabularyFolder, SettingsChangeIds) {
  const Ids plain = load(config_with({})).encode("hello", true);
  EXPECT_EQ(plain, load(config_with({})).encode("hello", false));
  Ids want = plain;
  want.insert(want.begin(), 319);
  EXPECT_EQ(load(config_with({{"add_bos_token", true}})).encode("hello", true), want);
  want.push_back(319);
  EXPECT_EQ(load(config_with({{"add_bos_token", true}, {"add_eos_token", true}})).encode("hello", true), want);
  EXPECT_EQ(load(config_with({{"add_prefix_space", true}})).encode("hello", true),
            load(config_with({})).encode(" hello", true));
}

TEST_F(VocabularyFolder, TheClassDecidesHowWordsAreCut) {
  const auto pieces = [](const Tokenizer& tokenizer, std::string_view text) {
    std::vector<std::string> out;
    for (const auto id : tokenizer.encode(text, false)) out.emplace_back(tokenizer.id_to_token(id));
    return out;
  };
  using Words = std::vector<std::string>;
  // digits apart come before the pattern: the second space stays with the first
  folder_.write("config.json", R"({"model_type": "gpt_bigcode"})");
  EXPECT_EQ(pieces(load(config_with({})), "a  1"), (Words{"a", "\xC4\xA0", "\xC4\xA0", "1"}));
  const Json nfc = {{"tokenizer_class", "Qwen2TokenizerFast"}, {"eos_token", "<|endoftext|>"}};
  folder_.write("config.json", "{}");
  EXPECT_EQ(load(nfc).encode("e\xCC\x81", false), load(nfc).encode("\xC3\xA9", false));
  EXPECT_NE(load(config_with({})).encode("e\xCC\x81", false), load(config_with({})).encode("\xC3\xA9", false));
}

TEST_F(VocabularyFolder, TheModelTypeDecidesWhereNoClassIsNamed) {
  folder_.write("config.json", R"({"model_type": "gpt2"})");
  EXPECT_EQ(Tokenizer::load(folder_.path(), kTokenizerClasses).eos_token_id(), 319);
  folder_.write("config.json", R"({"model_type": "mystery"})");
  EXPECT_NE(complaint().find("\"mystery\""), std::string::npos) << complaint();
  folder_.write("config.json", "{}");
  EXPECT_NE(complaint().find("names no tokenizer class"), std::string::npos) << complaint();
}

TEST_F(VocabularyFolder, SpecialTokensComeFromFourFiles) {
  folder_.write("added_tokens.json", R"({"<|end|>": 321, "<more>": 320})");
  folder_.write("special_tokens_map.json", R"({"eos_token": "<|end|>", "pad_token": "<|pad|>"})");
  const Tokenizer tokenizer = load(config_with({{"additional_special_tokens", {"<tool>"}}}));
  EXPECT_EQ(tokenizer.eos_token_id(), 321);
  EXPECT_EQ(tokenizer.encode("<|end|><more><|pad|><tool>", false), (Ids{321, 320, 322, 323}));
  EXPECT_TRUE(tokenizer.is_special(321) && tokenizer.is_special(322) && tokenizer.is_special(323));
  EXPECT_FALSE(tokenizer.is_special(320));
  const Json decoder = {{"330", {{"content", "<|end|>"}, {"special", true}, {"normalized", false}}}};
  EXPECT_EQ(load(config_with({{"added_tokens_decoder", decoder}})).encode("<|end|>", false), Ids{330});
}

TEST_F(VocabularyFolder, HostileFilesEndInASentence) {
  const auto expect = [&](const char* file, std::string_view content, const std::vector<std::string>& words) {
    std::ifstream in(folder_.path() / file);
    const std::string before{std::istreambuf_iterator<char>(in), {}};
    folder_.write(file, content);
    const std::string text = complaint();
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << file << ": " << text;
    if (before.empty())
      std::filesystem::remove(folder_.path() / file);
    else
      folder_.write(file, before);
  };
  folder_.write("tokenizer_config.json", kGpt2Config);
  EXPECT_EQ(complaint(), "");
  expect("tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})", {"BertTokenizer", "GPT2Tokenizer"});
  expect("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})", {"tokenizer.model", "missing"});
  expect("tokenizer_config.json", R"({"tokenizer_class": 7})", {"tokenizer_class", "string"});
  expect("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "bos_token": null, "add_bos_token": true})",
         {"add_bos_token", "no bos_token"});
  expect("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": "yes"})",
         {"add_prefix_space", "true or false"});
  expect("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"x": {}}})",
         {"added_tokens_decoder", "\"x\""});
  expect("tokenizer_config.json",
         R"({"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"70": {"content": "<a>"}}})",
         {"merges.txt: added_tokens[0]", "70"});
  expect("added_tokens.json", R"({"<a>": 400, "<b>": 400})", {"added_tokens.json", "400", "<a>", "<b>"});
  expect("added_tokens.json", R"({"<a>": -1})", {"<a>", "-1"});
  expect("vocab.json", "[]", {"vocab.json", "object"});
  expect("vocab.json", R"({"a": 1, "b": 1})", {"model.vocab", "\"a\"", "\"b\""});
  expect("merges.txt", "#version: 0.2\nxq zz\n", {"merges.txt: model.merges", "xq"});
  expect("merges.txt", "h e l\n", {"merges.txt", "h e l"});
  expect("merges.txt", "\xFF\n", {"merges.txt", "UTF-8"});
  expect("special_tokens_map.json", R"({"additional_special_tokens": "x"})", {"additional_special_tokens", "array"});
}

class SentencePieceFolder : public testing::Test {
 protected:
  std::string complaint(std::string_view model) const {
    folder_.write("tokenizer_config.json", R"({"tokenizer_class": "LlamaTokenizer"})");
    folder_.write("tokenizer.model", model);
    try {
      Tokenizer::load(folder_.path(), kTokenizerClasses);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::input);
      EXPECT_NE(std::string_view(error.what()).find("tokenizer.model"), std::string_view::npos) << error.what();
      return error.what();
    }
    return {};
  }
  static std::string piece(std::string_view text, float score, int type) {
    std::string fields = "\x0A" + std::string(1, static_cast<char>(text.size())) + std::string(text) + "\x15";
    fields.append(reinterpret_cast<const char*>(&score), sizeof(score));
    fields += {'\x18', static_cast<char>(type)};
    return "\x0A" + std::string(1, static_cast<char>(fields.size())) + fields;
  }
  static std::string kind(int number) { return {'\x12', '\x02', '\x18', static_cast<char>(number)}; }

  TemporaryFolder folder_;
};

TEST_F(SentencePieceFolder, DamagedModelsEndInASentence) {
  const std::string three = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3);
  EXPECT_EQ(complaint(three + piece("a", -1, 1) + kind(2)), "");
  EXPECT_NE(complaint("").find("not a SentencePiece model"), std::string::npos);
  EXPECT_NE(complaint("IQ== 0\nIg== 1\n").find("not a SentencePiece model"), std::string::npos);
  EXPECT_NE(complaint(three + "\x0A\x7F").find("damaged"), std::string::npos);
  EXPECT_NE(complaint(three + std::string(12, '\xFF')).find("damaged"), std::string::npos);
  EXPECT_NE(complaint(three + piece("a", -1, 9)).find("damaged"), std::string::npos);
  EXPECT_NE(complaint(three + piece("\xFF", -1, 1)).find("damaged"), std::string::npos);
  EXPECT_NE(complaint(three + piece("a", std::numeric_limits<float>::quiet_NaN(), 1)).find("score"), std::string::npos);
  EXPECT_NE(complaint(three + piece("<s>", -1, 1)).find("\"<s>\" occurs twice, with the ids 1 and 3"),
            std::string::npos);
  EXPECT_NE(complaint(three + kind(4)).find("kind 4"), std::string::npos);
  EXPECT_NE(complaint("version https://git-lfs.github.com/spec/v1\n").find("Git LFS"), std::string::npos);
}

// Any byte of a real file changed: either a tokenizer or a sentence.
TEST_F(SentencePieceFolder, NoChangedByteBringsItDown) {
  std::ifstream in(kData / "tokenizers/sentencepiece-bpe/tokenizer.model", std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  ASSERT_GT(good.size(), 5000U);
  EXPECT_EQ(complaint(good), "");
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); at += 53) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    refused += complaint(bad).empty() ? 0U : 1U;
    refused += complaint(good.substr(0, at)).empty() ? 0U : 1U;
  }
  EXPECT_GT(refused, 50U);
}

}  // namespace
}  // namespace tpinfer::test
