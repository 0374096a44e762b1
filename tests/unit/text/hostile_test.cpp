#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <random>

#include "core/error.hpp"
#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

struct Hostile {
  std::string what;
  std::function<void(Json&)> change;
  std::vector<std::string> words;  // all must be in the complaint
};

Json& model(Json& document) { return document["model"]; }

const std::vector<Hostile>& hostile_documents() {
  static const std::vector<Hostile> kCases = {
      {"merge of unknown tokens", [](Json& d) { model(d)["merges"].push_back("qqq z"); }, {"model.merges", "qqq"}},
      {"merge without a result",
       [](Json& d) {
         model(d)["merges"].push_back({"x", "z"});
       },
       {"model.merges", "\"xz\""}},
      {"merge with the empty token",
       [](Json& d) {
         model(d)["vocab"][""] = 5000;
         model(d)["merges"].push_back({"h", ""});
       },
       {"model.merges", "empty"}},
      {"merge of three", [](Json& d) { model(d)["merges"].push_back("a b c"); }, {"model.merges", "a b c"}},
      {"merge of a wrong type", [](Json& d) { model(d)["merges"].push_back(7); }, {"model.merges", "two strings"}},
      {"merges no list", [](Json& d) { model(d)["merges"] = "a b"; }, {"model.merges", "array"}},
      {"no merges", [](Json& d) { model(d).erase("merges"); }, {"merges"}},
      {"two tokens with one id", [](Json& d) { model(d)["vocab"]["hello"] = 70; }, {"model.vocab", "70", "hello"}},
      {"id of a wrong type", [](Json& d) { model(d)["vocab"]["hello"] = "7"; }, {"model.vocab", "hello", "string"}},
      {"negative id", [](Json& d) { model(d)["vocab"]["hello"] = -1; }, {"model.vocab", "hello", "-1"}},
      {"giant id", [](Json& d) { model(d)["vocab"]["hello"] = 2147483648; }, {"model.vocab", "2147483648"}},
      {"vocabulary no object", [](Json& d) { model(d)["vocab"] = Json::array(); }, {"model.vocab", "object"}},
      {"dropout", [](Json& d) { model(d)["dropout"] = 0.1; }, {"model.dropout", "0.1"}},
      {"another model", [](Json& d) { model(d)["type"] = "WordPiece"; }, {"model", "WordPiece"}},
      {"no model", [](Json& d) { d.erase("model"); }, {"model"}},
      {"model of a wrong type", [](Json& d) { d["model"] = 3; }, {"model", "object"}},
      {"flag of a wrong type", [](Json& d) { model(d)["byte_fallback"] = "yes"; }, {"model.byte_fallback", "string"}},
      {"unknown normalizer",
       [](Json& d) {
         d["normalizer"] = {{"type", "Nmt"}};
       },
       {"normalizer", "Nmt"}},
      {"normalizer without a type", [](Json& d) { d["normalizer"] = Json::object(); }, {"normalizer", "type"}},
      {"unknown pre-tokenizer",
       [](Json& d) {
         d["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "UnicodeScripts"}}}}};
       },
       {"pre_tokenizer.pretokenizers[0]", "UnicodeScripts"}},
      {"broken pattern",
       [](Json& d) {
         d["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
       },
       {"pre_tokenizer.pattern.Regex", "(a"}},
      {"unknown behavior",
       [](Json& d) {
         d["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Gone"}};
       },
       {"pre_tokenizer.behavior", "Gone"}},
      {"replacement of two characters",
       [](Json& d) {
         d["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "__"}};
       },
       {"pre_tokenizer.replacement", "__"}},
      {"unknown post-processor",
       [](Json& d) {
         d["post_processor"] = {{"type", "BertProcessing"}};
       },
       {"post_processor", "BertProcessing"}},
      {"special token that no token is",
       [](Json& d) {
         d["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                                {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {77777}}}}}}};
       },
       {"post_processor.special_tokens.<s>.ids[0]", "77777"}},
      {"template without the text",
       [](Json& d) {
         d["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}};
       },
       {"post_processor.single", "\"A\""}},
      {"unknown decoder",
       [](Json& d) {
         d["decoder"] = {{"type", "CTC"}};
       },
       {"decoder", "CTC"}},
      {"added token with the id of another",
       [](Json& d) {
         d["added_tokens"].push_back({{"id", 70}, {"content", "<x>"}});
       },
       {"added_tokens[1]", "70", "<x>"}},
      {"added token with another id than in the vocabulary",
       [](Json& d) {
         d["added_tokens"].push_back({{"id", 5000}, {"content", "a"}});
       },
       {"added_tokens[1]", "5000"}},
      {"added token listed twice",
       [](Json& d) { d["added_tokens"].push_back(d["added_tokens"][0]); },
       {"added_tokens[1]", "319"}},
      {"added token without content",
       [](Json& d) {
         d["added_tokens"].push_back({{"id", 400}});
       },
       {"added_tokens[1]", "content"}},
      {"empty added token",
       [](Json& d) {
         d["added_tokens"].push_back({{"id", 400}, {"content", ""}});
       },
       {"added_tokens[1]", "empty"}},
      {"giant added token",
       [](Json& d) {
         d["added_tokens"].push_back({{"id", 400}, {"content", std::string(5000, 'a')}});
       },
       {"added_tokens[1].content", "5000"}},
      {"megabytes of added tokens",
       [](Json& d) {
         for (int i = 0; i < 9000; ++i)
           d["added_tokens"].push_back({{"id", 400 + i}, {"content", std::to_string(i) + std::string(500, 'a')}});
       },
       {"added_tokens", "bytes together"}},
      {"text put in front that is no prefix",
       [](Json& d) {
         d["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(5000, 'a')}};
       },
       {"normalizer.prepend", "5000"}},
      {"thousands of steps",
       [](Json& d) {
         d["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<Json>(2000, Json({{"type", "NFC"}}))}};
       },
       {"normalizer.normalizers[256]", "256 steps"}},
      {"deep nesting",
       [](Json& d) {
         Json inner = {{"type", "NFC"}};
         for (int i = 0; i < 200; ++i) inner = Json{{"type", "Sequence"}, {"normalizers", Json::array({inner})}};
         d["normalizer"] = inner;
       },
       {"nested"}},
  };
  return kCases;
}

std::string complaint(const std::filesystem::path& folder) {
  try {
    Tokenizer::load(folder);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input) << error.what();
    return error.what();
  }
  return {};
}

TEST(HostileFiles, EndInOneSentence) {
  for (const Hostile& one : hostile_documents()) {
    Json document = byte_level_document();
    one.change(document);
    const TemporaryFolder folder;
    folder.write("tokenizer.json", document.dump());
    const std::string text = complaint(folder.path());
    EXPECT_NE(text.find((folder.path() / "tokenizer.json").string()), std::string::npos) << one.what << ": " << text;
    for (const std::string& word : one.words) EXPECT_NE(text.find(word), std::string::npos) << one.what << ": " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << one.what << ": " << text;
  }
}

TEST(HostileFiles, WhatIsNoTokenizerIsSaidSo) {
  const TemporaryFolder folder;
  EXPECT_NE(complaint(folder.path()).find("no tokenizer.json"), std::string::npos);
  for (const auto& [content, word] : std::vector<std::pair<std::string, std::string>>{
           {"", "not valid JSON"},
           {"<!DOCTYPE html><html></html>", "not valid JSON"},
           {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "Git LFS"},
           {"[]", "must be an object"},
           {"{\"model\": {\"a\": 1, \"a\": 2}}", "twice"},
           {"{\"model\": \"\xC3\"}", "not valid JSON"}}) {
    folder.write("tokenizer.json", content);
    EXPECT_NE(complaint(folder.path()).find(word), std::string::npos) << complaint(folder.path());
  }
}

// Refused by its size, unread: this takes no time and no memory.
TEST(HostileFiles, AreNotReadWhenTheyAreHuge) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", "{");
  std::filesystem::resize_file(folder.path() / "tokenizer.json", 100 << 20);
  const std::clock_t before = std::clock();
  EXPECT_NE(complaint(folder.path()).find("longer than the limit"), std::string::npos) << complaint(folder.path());
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC);
}

// Every kind of damage to a real file's text: a tokenizer or a sentence, never more.
TEST(HostileFiles, NoDamagedFileBringsItDown) {
  std::ifstream in(kData / "tokenizers/unigram-charsmap/tokenizer.json", std::ios::binary);
  const std::string unigram{std::istreambuf_iterator<char>(in), {}};
  const std::string bytes = byte_level_document().dump();
  std::mt19937_64 random(29);
  std::size_t refused = 0;
  const TemporaryFolder folder;
  for (int round = 0; round < 1500; ++round) {
    std::string text = round % 2 ? unigram : bytes;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = static_cast<char>(text[at] ^ (1 << random() % 8)); break;
        case 1: text.erase(at, 1 + random() % 30); break;
        case 2: text.insert(at, text.substr(random() % text.size(), random() % 60)); break;
        default: text[at] = "0{[\"]}:,-9"[random() % 10];
      }
    }
    folder.write("tokenizer.json", text);
    try {
      const Tokenizer tokenizer = Tokenizer::load(folder.path());
      tokenizer.decode(tokenizer.encode("the <|endoftext|> e\xCC\x81 1", true), true);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::input) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 500U);
}

TEST(HostileFiles, IdsMayHaveGaps) {
  Json document = byte_level_document();
  document["model"]["vocab"]["hello"] = 5000;
  const TemporaryFolder folder;
  folder.write("tokenizer.json", document.dump());
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.vocab_size(), 5001);
  EXPECT_TRUE(tokenizer.has_token(5000) && tokenizer.has_token(0) && tokenizer.has_token(319));
  EXPECT_FALSE(tokenizer.has_token(4999) || tokenizer.has_token(-1) || tokenizer.has_token(5001));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{4999, 5000, -1, 900000}, false), "hello");
}

TEST(HostileFiles, IdsWithoutATokenDoNotEndARunOfBytes) {
  const Tokenizer tokenizer = Tokenizer::load(kData / "models/tiny-llama");
  std::vector<std::int32_t> ids;
  for (const char* byte : {"<0xE5>", "<0xAD>", "<0x97>"}) {
    ids.push_back(tokenizer.token_to_id(byte).value());
    ids.push_back(2048);
  }
  EXPECT_EQ(tokenizer.decode(ids, false), "\xE5\xAD\x97");
}

TEST(HostileFiles, SpecialTokensAreNamedInTwoWays) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", byte_level_document().dump());
  folder.write("tokenizer_config.json", R"({"bos_token": "<|endoftext|>", "eos_token": {"content": "<|endoftext|>"}})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.bos_token_id(), 319);
  EXPECT_EQ(tokenizer.eos_token_id(), 319);
  folder.write("tokenizer_config.json", R"({"bos_token": null, "eos_token": 5})");
  EXPECT_NE(complaint(folder.path()).find("eos_token"), std::string::npos);
}

TEST(HostileTexts, MustBeUtf8) {
  const Tokenizer tokenizer = Tokenizer::load(kData / "models/tiny-llama");
  try {
    tokenizer.encode("abc\xFFxyz", true);
    FAIL() << "bad UTF-8 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input);
    EXPECT_NE(std::string(error.what()).find("byte 3"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tpinfer::test
