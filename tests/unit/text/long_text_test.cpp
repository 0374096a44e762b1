#include "long_text.hpp"

#include <gtest/gtest.h>

#include "model/families_tokenizers.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

void expect_linear_on_others(const Tokenizer& tokenizer, const std::string& what, std::size_t size) {
  expect_linear(tokenizer, what + " on accents", "a" + repeated("\xCC\x81\xCC\xA3", size));
  expect_linear(tokenizer, what + " on clusters", repeated("\xF0\x9F\x91\xA9\xE2\x80\x8D", size));
  expect_linear(tokenizer, what + " on spaces and a letter", std::string(size, ' ') + "x");
  std::string word;
  for (std::uint32_t state = 1; word.size() < size;) {
    state = state * 1664525 + 1013904223;
    word += static_cast<char>('a' + (state >> 24) % 26);
  }
  expect_linear(tokenizer, what + " on one long word", word);
}

TEST(LongText, NoTokenizerTakesQuadraticTime) {
  for (const char* name :
       {"models/tiny-llama", "models/rand-llama-tied", "tokenizers/deepseek3-like", "tokenizers/nfkc-strip-replace",
        "tokenizers/flags-bytelevel", "tokenizers/gemma-like", "tokenizers/extra-word-suffix",
        "tokenizers/unigram-charsmap", "tokenizers/sentencepiece-unigram"}) {
    const Tokenizer tokenizer = Tokenizer::load(kData / name, kTokenizerClasses);
    expect_linear_on_one_character(tokenizer, name, 1 << 17);
    expect_linear_on_others(tokenizer, name, 1 << 17);
  }
}

TEST(LongText, SpacesAndDigitsComeBack) {
  const Tokenizer tokenizer = Tokenizer::load(kData / "models/tiny-llama");
  for (const char c : {' ', '1', 'e'}) {
    const std::string text(1 << 18, c);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true), true), text);
  }
}

}  // namespace
}  // namespace tpinfer::test
