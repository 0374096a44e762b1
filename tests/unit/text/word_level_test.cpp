#include <gtest/gtest.h>

#include "core/error.hpp"
#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

constexpr const char* kDocument =
    R"({"version": "1.0", "added_tokens": [{"id": 1, "content": "<s>", "single_word": false, "lstrip": false,
  "rstrip": false, "normalized": false, "special": true}], "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
  "post_processor": null, "decoder": null,
  "model": {"type": "WordLevel", "vocab": {"<pad>": 0, "<s>": 1, "to": 2, "be": 3, "or": 4}, "unk_token": "<pad>"}})";

TEST(WordLevel, WholeWordsAreTokens) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", kDocument);
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  const std::vector<std::int32_t> ids{2, 3, 0, 1, 4};
  EXPECT_EQ(tokenizer.encode("to  be tobe <s>or", true), ids);
  EXPECT_EQ(tokenizer.decode(ids, false), "to be <pad> <s> or");
  EXPECT_EQ(tokenizer.decode(ids, true), "to be <pad> or");
  EXPECT_EQ(tokenizer.vocab_size(), 5);
}

TEST(WordLevel, AnUnknownWordNeedsTheUnknownToken) {
  std::string document = kDocument;
  document.replace(document.find(R"("unk_token": "<pad>")"), 20, R"("unk_token": "<unk>")");
  const TemporaryFolder folder;
  folder.write("tokenizer.json", document);
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.encode("to be", false), (std::vector<std::int32_t>{2, 3}));
  EXPECT_THROW(tokenizer.encode("question", false), Error);
}

}  // namespace
}  // namespace tpinfer::test
