#include "core/sha256.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace tpinfer {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string sum(std::string_view text, bool accelerated, std::size_t piece) {
  Sha256 hash(accelerated);
  for (std::size_t at = 0; at < text.size(); at += piece) hash.update(bytes(text.substr(at, piece)));
  return hash.hex();
}

class Hash : public testing::TestWithParam<bool> {};

TEST_P(Hash, PublishedVectors) {
  const bool fast = GetParam();
  EXPECT_EQ(sum("", fast, 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sum("abc", fast, 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", fast, 60),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sum(std::string(1'000'000, 'a'), fast, 4096),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_P(Hash, PiecesAndLengthsDoNotMatter) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    const std::string whole = sum(text, false, 1000);
    for (const std::size_t piece : {1UL, 7UL, 63UL, 64UL, 65UL, 128UL}) ASSERT_EQ(sum(text, GetParam(), piece), whole);
    text += static_cast<char>(i * 37);
  }
}

INSTANTIATE_TEST_SUITE_P(Sha256, Hash, testing::Bool());

}  // namespace
}  // namespace tpinfer
