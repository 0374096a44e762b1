#include <gtest/gtest.h>

#include <ctime>

#include "model/families_tokenizers.hpp"
#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

double cpu_seconds(const Tokenizer& tokenizer, const std::string& text) {
  const std::clock_t before = std::clock();
  const auto ids = tokenizer.encode(text, false);
  EXPECT_LE(tokenizer.decode(ids, false).size(), 4 * text.size() + 1);
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

// Sixteen times the text may take thirty-two times as long; what takes time n^2 takes 256 times. Short times are noise.
void expect_linear(const Tokenizer& tokenizer, const std::string& what, const std::string& text) {
  constexpr double kNoise = 0.05;
  std::size_t part = text.size() / 16;
  while ((static_cast<unsigned char>(text[part]) & 0xC0) == 0x80) ++part;
  double shorter = 0, longer = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {  // a busy machine
    shorter = cpu_seconds(tokenizer, text.substr(0, part));
    longer = cpu_seconds(tokenizer, text);
    if (longer < 32 * std::max(shorter, kNoise)) return;
  }
  ADD_FAILURE() << what << ": " << text.size() << " bytes take " << longer << " s, a sixteenth of them " << shorter;
}

std::string repeated(std::string_view part, std::size_t size) {
  std::string text;
  while (text.size() + part.size() <= size) text += part;
  return text;
}

void expect_linear_on_one_character(const Tokenizer& tokenizer, const std::string& what, std::size_t size) {
  for (const std::string_view c : {"a", " ", "1", "\xE5\xAD\x97"})
    expect_linear(tokenizer, what + " on \"" + std::string(c) + "\"", repeated(c, size));
}

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

// Every tokenizer.json of a real model, on a megabyte of one character.
TEST(LongText, RealTokenizersTakeNoQuadraticTime) {
  std::size_t count = 0;
  for (const char* folder : {"real", "golden/tokenizers"}) {
    if (!std::filesystem::exists(kShared / folder)) GTEST_SKIP() << kShared / folder << " is absent";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kShared / folder)) {
      const std::string name = entry.path().filename().string();
      const bool named = name == "tokenizer.json" || name.ends_with(".tokenizer.json") ||
                         (name.starts_with("tokenizer.") && name.ends_with(".json"));
      if (!named || entry.path().string().find("synthetic") != std::string::npos) continue;
      const TemporaryFolder place;
      std::filesystem::create_symlink(entry.path(), place.path() / "tokenizer.json");
      const Tokenizer tokenizer = Tokenizer::load(place.path());
      expect_linear_on_one_character(tokenizer, entry.path().string(), 1 << 20);
      ++count;
    }
  }
  EXPECT_GE(count, 14U);
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
