#include <gtest/gtest.h>

#include <fstream>

#include "model/families_tokenizers.hpp"
#include "real_tokenizers.hpp"
#include "tokenizer_files.hpp"

// Folders of real models without a tokenizer.json: vocab.json and merges.txt, or a SentencePiece model.
namespace tpinfer::test {
namespace {

struct RealFolder {
  std::string golden;  // golden/tokenizers/NAME.jsonl
  std::string files;   // vocab.json and merges.txt, or tokenizer.model, below real/
  std::string config;  // tokenizer_config.json below real/, or its text
  std::string model_type;
  std::size_t lines;
};

constexpr const char* kMarkFirst = R"({"tokenizer_class": "LlamaTokenizer", "legacy": false})";
constexpr const char* kMarkEach = R"({"tokenizer_class": "LlamaTokenizer", "legacy": true})";
constexpr const char* kEndFirst =
    R"({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true, "bos_token": "</s>", "eos_token": "</s>",
        "unk_token": "</s>", "pad_token": {"content": "<pad>", "normalized": true}})";

const RealFolder kRealFolders[] = {
    {"llama-2-7b-hf", "llama-2-7b-hf", kMarkEach, "", 376},
    {"mixtral-8x7b-v0.1", "mixtral-8x7b-v0.1", "mixtral-8x7b-v0.1", "", 376},
    {"dolphin-2.5-mixtral-8x7b", "mixtral-8x7b-v0.1", "dolphin-2.5-mixtral-8x7b", "", 385},
    {"mistral-7b-instruct-v0.3", "mistral-7b-instruct-v0.3", kMarkFirst, "", 406},
    {"gpt2", "gpt2", "{}", "gpt2", 354},
    {"opt", "opt", kEndFirst, "", 372},
    {"starcoderbase-1b", "starcoder", "starcoder", "gpt_bigcode", 396},
    {"starcoder2-7b", "starcoder2-7b", "", "starcoder2", 407},
    {"qwen1.5-moe-a2.7b", "qwen1.5-moe-a2.7b", "qwen1.5-moe-a2.7b", "", 377},
    {"qwen2.5-7b-instruct", "qwen2-57b-a14b", "qwen2.5-7b-instruct", "", 402},
    {"qwen3-30b-a3b", "qwen2-57b-a14b", "qwen3-30b-a3b", "", 406},
};

class RealFolders : public testing::TestWithParam<RealFolder> {};

void link_files(const RealFolder& real, const TemporaryFolder& folder) {
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.model"})
    if (const auto file = kShared / "real" / real.files / name; std::filesystem::exists(file))
      std::filesystem::create_symlink(file, folder.path() / name);
  if (!real.model_type.empty()) folder.write("config.json", Json({{"model_type", real.model_type}}).dump());
  if (real.config.starts_with("{")) {
    folder.write("tokenizer_config.json", real.config);
    return;
  }
  for (const char* name : {"tokenizer_config", "added_tokens", "special_tokens_map"})
    for (const char* ending : {".json", ".wizardcoder.json"})
      if (const auto file = kShared / "real" / real.config / (std::string(name) + ending);
          !real.config.empty() && std::filesystem::exists(file))
        std::filesystem::create_symlink(file, folder.path() / (std::string(name) + ".json"));
}

// The folder of starcoder2 has no list of its special tokens: they are the first 38.
void name_first_tokens(const std::filesystem::path& folder, int count) {
  const Json vocab = read_json_file((folder / "vocab.json").string());
  Json names = Json::array();
  for (const auto& [token, id] : vocab.items())
    if (id < count) names.push_back(token);
  std::ofstream(folder / "special_tokens_map.json") << Json({{"additional_special_tokens", names}});
}

TEST_P(RealFolders, AgreesWithTheReference) {
  const RealFolder& real = GetParam();
  const auto golden = kShared / "golden/tokenizers" / (real.golden + ".jsonl");
  if (!std::filesystem::exists(golden)) GTEST_SKIP() << golden << " is absent: it is not part of the repository";
  const TemporaryFolder folder;
  link_files(real, folder);
  if (real.config.empty()) name_first_tokens(folder.path(), 38);
  const Tokenizer tokenizer = Tokenizer::load(folder.path(), kTokenizerClasses);
  std::size_t lines = 0;
  for (const Json& record : read_lines(golden)) {
    const auto text = record["text"].get<std::string>();
    if (text.find("[PAD]") != std::string::npos) continue;  // of a derivative whose settings stand in here
    const Ids ids = tokenizer.encode(text, true);
    const Ids plain = tokenizer.encode(text, false);
    ASSERT_EQ(ids, record["ids"].get<Ids>()) << record["text"];
    ASSERT_EQ(plain, record["ids_no_special"].get<Ids>()) << record["text"];
    ASSERT_EQ(tokenizer.decode(plain, false), record["decoded"].get<std::string>()) << record["text"];
    ASSERT_EQ(tokenizer.decode(ids, true), record["decoded_skip"].get<std::string>()) << record["text"];
    ++lines;
  }
  EXPECT_EQ(lines, real.lines);
}

INSTANTIATE_TEST_SUITE_P(Text, RealFolders, testing::ValuesIn(kRealFolders),
                         [](const auto& one) { return test_name(one.param.golden); });

}  // namespace
}  // namespace tpinfer::test
