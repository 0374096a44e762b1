#include <gtest/gtest.h>

#include <ctime>

#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A quarter or one megabyte of each: what takes time n^2 needs minutes. Sanitizers and a busy machine get room.
void expect_fast(const Tokenizer& tokenizer, const std::string& what, std::size_t size = 1 << 20) {
  constexpr double kLimit = 6.0;
  std::vector<std::pair<std::string, std::string>> texts;
  for (const char c : {'a', ' ', '1', '\n', '!'}) texts.emplace_back(std::string(1, c), std::string(size, c));
  std::string marks = "a";
  while (marks.size() < size) marks += "\xCC\x81\xCC\xA3";  // an accent above, one below, ...
  texts.emplace_back("accents", marks);
  texts.emplace_back("spaces and a letter", std::string(size, ' ') + "x");
  std::string words;
  for (std::uint32_t state = 1; words.size() < size;) {
    state = state * 1664525 + 1013904223;
    words += static_cast<char>('a' + (state >> 24) % 26);
  }
  texts.emplace_back("one long word", words);
  for (const auto& [name, text] : texts) {
    const double before = cpu_seconds();
    const auto ids = tokenizer.encode(text, false);
    const std::string back = tokenizer.decode(ids, false);
    EXPECT_LT(cpu_seconds() - before, kLimit) << what << ": " << name << ", " << back.size() << " bytes";
  }
}

TEST(LongText, NoTokenizerTakesQuadraticTime) {
  expect_fast(Tokenizer::load(kData / "models/tiny-llama"), "tiny-llama");
  expect_fast(Tokenizer::load(kData / "models/rand-llama-tied"), "rand-llama-tied");
  for (const char* name :
       {"deepseek3-like", "nfkc-strip-replace", "flags-bytelevel", "gemma-like", "extra-word-suffix"})
    expect_fast(Tokenizer::load(kData / "tokenizers" / name), name, 1 << 18);
}

TEST(LongText, RealTokenizersTakeNoQuadraticTime) {
  for (const char* file : {"real/llama-2-7b-hf/tokenizer.json", "golden/tokenizers/gpt2.tokenizer.json"}) {
    if (!std::filesystem::exists(kShared / file)) GTEST_SKIP() << kShared / file << " is absent";
    const TemporaryFolder folder;
    std::filesystem::create_symlink(kShared / file, folder.path() / "tokenizer.json");
    expect_fast(Tokenizer::load(folder.path()), file);
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
