#include "text/stop_strings.hpp"

#include <gtest/gtest.h>

#include <random>

#include "core/error.hpp"
#include "text/tokenizer.hpp"
#include "tokenizer_files.hpp"

namespace tpinfer::test {
namespace {

using Match = StopStrings::Match;
using Strings = std::vector<std::string>;

// The definition, tried at every end and every beginning.
std::optional<Match> plain_search(const Strings& strings, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end)
    for (std::size_t begin = 0; begin < end; ++begin)
      for (const std::string& stop : strings)
        if (stop.size() == end - begin && text.compare(begin, stop.size(), stop) == 0) return Match{begin, end};
  return std::nullopt;
}

TEST(StopStrings, AcrossPieces) {
  StopStrings stop(Strings{"\n\nHuman:", "END"});
  EXPECT_FALSE(stop.push("It is so.\n"));
  EXPECT_FALSE(stop.push(""));
  EXPECT_FALSE(stop.push("\nHum"));
  EXPECT_EQ(stop.push("an: and END"), (Match{9, 17}));
  EXPECT_EQ(stop.push("END"), (Match{9, 17})) << "the first match stays";
  EXPECT_EQ(stop.match(), (Match{9, 17}));
}

TEST(StopStrings, TheEarliestEndCountsThenTheLongest) {
  EXPECT_EQ(StopStrings(Strings{"abcdef", "cd"}).find("xabcdef"), (Match{3, 5}))
      << "ends first, though it begins later";
  EXPECT_EQ(StopStrings(Strings{"c", "bc", "abc"}).find("xabc"), (Match{1, 4})) << "all end together: the longest";
  EXPECT_EQ(StopStrings(Strings{"abc", "bc", "c"}).find("xabc"), (Match{1, 4})) << "whatever their order";
  EXPECT_EQ(StopStrings(Strings{"abcd", "bc"}).find("abcd"), (Match{1, 3}));
  EXPECT_EQ(StopStrings(Strings{"aab"}).find("aaab"), (Match{1, 4})) << "a beginning that fails may hold another";
}

TEST(StopStrings, NoneAndEmpty) {
  StopStrings none;
  EXPECT_TRUE(none.empty());
  EXPECT_FALSE(none.push("text"));
  EXPECT_FALSE(none.find("text"));
  EXPECT_FALSE(StopStrings(Strings{"abc"}).empty());
  EXPECT_FALSE(StopStrings(Strings{"abc"}).find(""));
  EXPECT_THROW(StopStrings(Strings{"a", ""}), Error);
}

TEST(StopStrings, BytesOfAnyValue) {
  const std::string zero("\0\xFF\0", 3);
  EXPECT_EQ(StopStrings(Strings{zero}).find(std::string("a\0\0\xFF\0", 5)), (Match{2, 5}));
  EXPECT_EQ(StopStrings(Strings{"\xC3\xA9"}).find("caf\xC3\xA9"), (Match{3, 5}));
}

// The n samples of a prompt begin with the same strings and go their own ways.
TEST(StopStrings, CopiesAreIndependent) {
  StopStrings first(Strings{"ab"});
  first.push("a");
  StopStrings second = first;
  EXPECT_EQ(first.push("b"), (Match{0, 2}));
  EXPECT_FALSE(second.push("c"));
  EXPECT_EQ(second.push("ab"), (Match{2, 4}));
  EXPECT_EQ(first.find("zab"), (Match{1, 3})) << "find starts anew";
}

TEST(StopStrings, AnyPiecesGiveWhatTheWholeTextGives) {
  std::mt19937_64 random(3);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const auto text = [&](std::size_t length) {
    std::string out;
    for (std::size_t i = 0; i < length; ++i) out += static_cast<char>('a' + below(2 + below(2)));
    return out;
  };
  std::size_t matches = 0, over_a_border = 0;
  for (int round = 0; round < 20000; ++round) {
    Strings strings;
    for (std::size_t i = below(5); i-- > 0;) strings.push_back(text(1 + below(7)));
    const std::string whole = text(below(40));
    StopStrings stop(strings);
    const auto expected = plain_search(strings, whole);
    ASSERT_EQ(stop.find(whole), expected) << whole;
    std::size_t at = 0;
    while (at < whole.size()) {
      const std::size_t size = std::min(below(6), whole.size() - at);
      const bool before = stop.match().has_value();
      stop.push(std::string_view(whole).substr(at, size));
      at += size;
      ASSERT_EQ(stop.match().has_value(), expected && expected->end <= at) << "told with the piece that completes it";
      if (!before && stop.match()) over_a_border += stop.match()->begin < at - size;
    }
    ASSERT_EQ(stop.match(), expected) << whole;
    matches += expected.has_value();
  }
  EXPECT_GT(matches, 5000U);
  EXPECT_GT(over_a_border, 1000U);
}

// Many overlapping beginnings cost no more than the text is long.
TEST(StopStrings, LongStringsInLongTexts) {
  const std::string many(100000, 'a');
  StopStrings stop(Strings{many + "b", many + "c"});
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(stop.push(many));
  EXPECT_EQ(stop.push("c"), (Match{29 * many.size(), 30 * many.size() + 1}));
}

// In a real vocabulary a stop string lies anywhere in the tokens: as the text comes, so it is found.
TEST(StopStrings, InTheTextOfTokens) {
  const Tokenizer tokenizer = Tokenizer::load(kData / "models/tiny-llama");
  const std::string text = "She said caf\xC3\xA9 \xF0\x9F\x98\x80 to him, and then no more.";
  const std::vector<std::int32_t> ids = tokenizer.encode(text, false);
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    for (const std::size_t size : {1U, 2U, 5U, 11U}) {
      const Strings strings = {text.substr(begin, size)};
      StopStrings stop(strings);
      IncrementalDecoder decoder(tokenizer, true);
      for (const std::int32_t id : ids) stop.push(decoder.push(id));
      EXPECT_EQ(stop.push(decoder.finish()), plain_search(strings, text)) << begin << ' ' << size;
    }
  }
}

}  // namespace
}  // namespace tpinfer::test
