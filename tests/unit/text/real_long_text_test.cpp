#include <gtest/gtest.h>

#include <cstdlib>

#include "long_text.hpp"
#include "real_tokenizers.hpp"

namespace tpinfer::test {
namespace {

// A long run of one character, with each way to cut words that is in use.
TEST(RealLongText, NoTokenizerTakesQuadraticTime) {
  std::vector<std::string> names{
      "llama-2-7b-hf", "gpt2",          "deepseek-llm", "falcon-40b", "mistral-7b-instruct-v0.3",
      "starcoder",     "starcoder2-7b", "gpt-neox-20b"};
  std::size_t size = std::size_t{1} << 18;
  if (std::getenv("TPINFER_LONG_TESTS")) {
    names.clear();
    for (const RealTokenizer& real : real_tokenizers()) names.push_back(real.name);
    size = std::size_t{1} << 20;
  }
  for (const std::string& name : names) {
    std::string reason;
    const Tokenizer* tokenizer = real_tokenizer(name, reason);
    if (!tokenizer) GTEST_SKIP() << reason;
    expect_linear_on_one_character(*tokenizer, name, size);
  }
}

}  // namespace
}  // namespace tpinfer::test
