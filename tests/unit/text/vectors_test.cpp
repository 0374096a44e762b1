#include <gtest/gtest.h>

#include <sstream>

#include "core/error.hpp"
#include "real_tokenizers.hpp"
#include "tokenizer_files.hpp"

// Ids that other projects have published for the tokenizers of real models.
namespace tpinfer::test {
namespace {

const auto kVectors = kShared / "real/test-vectors";

struct Vectors {
  std::string tokenizer, file;
  std::size_t same, all;  ///< texts whose ids are the published ones, and all
};

struct Case {
  std::string text;
  Ids ids;
};

Ids read_ids(const std::string& line, char separator) {
  Ids ids;
  std::istringstream words(line);
  for (std::string word; std::getline(words, word, separator);)
    if (!word.empty()) ids.push_back(std::stoi(word));
  return ids;
}

// ggml-vocab: NAME.inp has the texts, NAME.out a line of ids for each; the last text and its line are empty.
std::vector<Case> vocabulary_cases(const std::string& name) {
  constexpr std::string_view kBetween = "\n__ggml_vocab_test__\n";
  const std::string texts = read_text_file((kVectors / "ggml-vocab" / (name + ".inp")).string());
  std::ifstream out(kVectors / "ggml-vocab" / (name + ".out"));
  std::vector<Case> cases;
  for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + kBetween.size()) {
    end = texts.find(kBetween, at);
    std::string line;
    std::getline(out, line);
    cases.push_back({texts.substr(at, end - at), read_ids(line, ' ')});
  }
  return cases;
}

// ggml-prompts: lines "text => id,id,id".
std::vector<Case> prompt_cases(const std::string& name) {
  constexpr std::string_view kBetween = " => ";
  std::ifstream in(kVectors / "ggml-prompts" / (name + ".txt"));
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.rfind(kBetween);
    cases.push_back({line.substr(0, at), read_ids(line.substr(at + kBetween.size()), ',')});
  }
  return cases;
}

void expect_same(const Vectors& vectors, const std::vector<Case>& cases, bool add_special) {
  SCOPED_TRACE(vectors.file + " with " + vectors.tokenizer);
  std::string reason;
  const Tokenizer* tokenizer = real_tokenizer(vectors.tokenizer, reason);
  if (!tokenizer) return;  // made in long tests alone
  ASSERT_EQ(cases.size(), vectors.all);
  std::size_t same = 0;
  std::string first;
  for (const Case& one : cases) {
    if (tokenizer->encode(one.text, add_special) == one.ids)
      ++same;
    else if (first.empty())
      first = one.text;
  }
  EXPECT_EQ(same, vectors.same) << first;
}

class PublishedIds : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kVectors)) GTEST_SKIP() << kVectors << " is absent: it is not part of the repository";
  }
};

TEST_F(PublishedIds, OfGgmlVocabularies) {
  for (const Vectors& vectors : std::vector<Vectors>{{"llama-2-7b-hf", "llama-spm", 47, 47},
                                                     {"phi-3-mini-4k-instruct", "phi-3", 47, 47},
                                                     {"starcoder2-7b", "starcoder2", 47, 47},
                                                     {"starcoder", "refact", 47, 47},
                                                     {"starcoderbase-1b", "refact", 47, 47},
                                                     {"gpt2", "gpt-2", 47, 47},
                                                     {"phi-2", "gpt-2", 40, 47},  // has tokens of its own for spaces
                                                     {"falcon-40b", "falcon", 47, 47},
                                                     {"deepseek-llm", "deepseek-llm", 47, 47},
                                                     {"gpt-neox-20b", "mpt", 47, 47},
                                                     {"olmoe-1b-7b-0924", "mpt", 47, 47},
                                                     {"llama-3-8b", "llama-bpe", 47, 47},
                                                     {"qwen1.5-moe-a2.7b", "qwen2", 47, 47},
                                                     {"qwen3-30b-a3b", "qwen2", 47, 47}})
    expect_same(vectors, vocabulary_cases(vectors.file), false);
}

TEST_F(PublishedIds, OfGgmlPrompts) {
  for (const Vectors& vectors : std::vector<Vectors>{{"gpt2", "gpt-2", 100, 100},
                                                     {"gpt2", "gpt-j", 100, 100},
                                                     {"gpt-neox-20b", "gpt-neox", 100, 100},
                                                     {"gpt-neox-20b", "dolly-v2", 100, 100},
                                                     {"starcoder", "starcoder", 100, 100}})
    expect_same(vectors, prompt_cases(vectors.file), false);
}

TEST_F(PublishedIds, OfTransformers) {
  for (const auto& [vectors, add_special] : std::vector<std::pair<Vectors, bool>>{
           {{"llama-2-7b-hf", "llama", 15, 15}, true}, {{"qwen1.5-moe-a2.7b", "qwen2", 3, 3}, false}}) {
    std::vector<Case> cases;
    const Json file = read_json_file((kVectors / "transformers" / (vectors.file + ".json")).string());
    for (const Json& one : file["cases"]) cases.push_back({one[0].get<std::string>(), one[1].get<Ids>()});
    expect_same(vectors, cases, add_special);
  }
}

TEST_F(PublishedIds, OfSwiftTransformers) {
  const Json file = read_json_file((kVectors / "swift-transformers/tokenizer_tests.json").string());
  for (const Vectors& vectors :
       std::vector<Vectors>{{"llama-2-7b-hf", "coreml-projects/Llama-2-7b-chat-coreml", 18, 18},
                            {"falcon-40b", "tiiuae/falcon-7b", 19, 19},
                            {"llama-3-8b", "pcuenq/Llama-3.2-1B-Instruct-tokenizer", 18, 18}}) {
    std::vector<Case> cases;
    for (const Json& one : file[vectors.file])
      cases.push_back({one["input"].get<std::string>(), one["encoded"]["input_ids"].get<Ids>()});
    expect_same(vectors, cases, true);
  }
}

TEST_F(PublishedIds, OfMistralCommon) {
  std::string text = read_text_file((kVectors / "mistral-common/no_tools/text_v3.txt").string());
  constexpr std::string_view kMark = "\xE2\x96\x81";
  for (std::size_t at = 0; (at = text.find(kMark, at)) != std::string::npos; ++at) text.replace(at, kMark.size(), " ");
  const Json tokens = read_json_file((kVectors / "mistral-common/no_tools/tokens_v3.json").string());
  expect_same({"mistral-7b-instruct-v0.3", "tokens_v3", 1, 1}, {{text, tokens["tokens"].get<Ids>()}}, false);
}

// A space before the first word, a character of four byte tokens, and a full stop behind it.
TEST_F(PublishedIds, OfOneLineThatOthersGotWrong) {
  std::string reason;
  const Tokenizer* tokenizer = real_tokenizer("llama-2-7b-hf", reason);
  if (!tokenizer) GTEST_SKIP() << reason;
  EXPECT_EQ(tokenizer->encode("This is \U0001F999.cpp", true),
            (Ids{1, 910, 338, 29871, 243, 162, 169, 156, 29889, 8223}));
}

}  // namespace
}  // namespace tpinfer::test
