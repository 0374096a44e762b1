#include "text/bpe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/error.hpp"

namespace tpinfer::test {
namespace {

using Ids = std::vector<std::int32_t>;

Ids encode(const std::string& model, std::string_view piece) {
  const Json document = Json::parse(model);
  const Bpe bpe(Place(document, "model"));
  Bpe::Scratch scratch;
  Ids ids;
  bpe.encode(piece, ids, scratch);
  Ids again;  // from the cache
  bpe.encode(piece, again, scratch);
  EXPECT_EQ(ids, again);
  return ids;
}

TEST(Bpe, MergesByRankThenFromTheLeft) {
  const std::string model = R"({"vocab":{"a":0,"b":1,"c":2,"aa":3,"ab":4,"bc":5,"abc":6},
      "merges":["b c","a a","a bc","a b"]})";
  EXPECT_EQ(encode(model, "abc"), (Ids{6}));
  EXPECT_EQ(encode(model, "aaa"), (Ids{3, 0}));
  EXPECT_EQ(encode(model, "aaab"), (Ids{3, 4}));
  EXPECT_EQ(encode(model, "aabc"), (Ids{3, 5}));
  EXPECT_EQ(encode(model, ""), Ids{});
}

TEST(Bpe, OfTwoEqualMergesTheLaterCounts) {
  const std::string model = R"({"vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4},"merges":["a b","b c","a b"]})";
  EXPECT_EQ(encode(model, "abc"), (Ids{0, 4}));
}

TEST(Bpe, IgnoreMergesTakesAPieceThatIsAToken) {
  const std::string start = R"({"vocab":{"a":0,"b":1,"c":2,"abc":3,"ab":4},"merges":[["a","b"]])";
  EXPECT_EQ(encode(start + "}", "abc"), (Ids{4, 2}));
  EXPECT_EQ(encode(start + R"(,"ignore_merges":true})", "abc"), (Ids{3}));
  EXPECT_EQ(encode(start + R"(,"ignore_merges":true})", "abcc"), (Ids{4, 2, 2}));
}

TEST(Bpe, CharactersWithoutATokenBecomeUnknownOrGo) {
  const std::string start = R"({"vocab":{"a":0,"<unk>":1},"merges":[],"dropout":0.0)";
  EXPECT_EQ(encode(start + "}", "xay"), (Ids{0}));
  EXPECT_EQ(encode(start + R"(,"unk_token":"<unk>"})", "xyaz"), (Ids{1, 1, 0, 1}));
  EXPECT_EQ(encode(start + R"(,"unk_token":"<unk>","fuse_unk":true})", "xyaz"), (Ids{1, 0, 1}));
  EXPECT_EQ(encode(start + R"(,"unk_token":"<none>"})", "aa"), (Ids{0, 0}));
  EXPECT_THROW(encode(start + R"(,"unk_token":"<none>"})", "ax"), Error);
}

TEST(Bpe, BytesStandInWhenAllAreThere) {
  const std::string model = R"({"vocab":{"a":0,"<unk>":1,"<0xC3>":2,"<0xA9>":3},"merges":[],"byte_fallback":true,
      "unk_token":"<unk>"})";
  EXPECT_EQ(encode(model, "a\xC3\xA9"), (Ids{0, 2, 3}));
  EXPECT_EQ(encode(model, "\xC3\xA8"), (Ids{1}));
}

// A text is cut at its word marks only where no merge can reach over the cut.
TEST(Bpe, MarksMergeAcrossWhatIsNoCharacter) {
  const std::string marks = R"({"vocab":{"▁":0,"a":1,"▁▁":2,"<unk>":3,"<unk>▁":4,"<0xC3>":5,"<0xA9>":6,"<0xA9>▁":7},
      "merges":["▁ ▁","<unk> ▁","<0xA9> ▁"])";
  EXPECT_EQ(encode(marks + "}", "▁x▁a"), (Ids{2, 1}));  // x is left out
  EXPECT_EQ(encode(marks + R"(,"unk_token":"<unk>"})", "▁x▁a"), (Ids{0, 4, 1}));
  EXPECT_EQ(encode(marks + R"(,"byte_fallback":true})", "aé▁a"), (Ids{1, 5, 7, 1}));
}

// The plain definition: merge the leftmost pair of the lowest rank until there is none.
TEST(Bpe, AgreesWithTheDefinitionOnRandomModels) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 12; ++i) {
      const auto pick = [&] { return tokens[random() % tokens.size()]; };
      const std::pair<std::string, std::string> merge(pick(), pick());
      const std::string result = merge.first + merge.second;
      if (std::find(tokens.begin(), tokens.end(), result) != tokens.end()) continue;
      merges.push_back(merge);
      tokens.push_back(result);
    }
    Json document = {{"vocab", Json::object()}, {"merges", merges}};
    for (std::size_t i = 0; i < tokens.size(); ++i) document["vocab"][tokens[i]] = i;
    std::vector<std::string> parts;
    for (std::size_t n = 1 + random() % 40; n > 0; --n) parts.emplace_back(1, static_cast<char>('a' + random() % 3));
    std::string piece;
    for (const std::string& part : parts) piece += part;
    for (std::size_t rank = 0; rank < merges.size();) {
      std::size_t at = 0;
      while (at + 1 < parts.size() && std::pair(parts[at], parts[at + 1]) != merges[rank]) ++at;
      if (at + 1 >= parts.size()) {
        ++rank;
        continue;
      }
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      rank = 0;
    }
    Ids expected;
    for (const std::string& part : parts)
      expected.push_back(static_cast<std::int32_t>(std::find(tokens.begin(), tokens.end(), part) - tokens.begin()));
    ASSERT_EQ(encode(document.dump(), piece), expected) << document << ' ' << piece;
  }
}

}  // namespace
}  // namespace tpinfer::test
