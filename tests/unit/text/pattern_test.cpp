#include "text/pattern.hpp"

#include <gtest/gtest.h>

#include <random>

#include "text/gpt2_pattern.hpp"
#include "text/utf8.hpp"
#include "text/word_pattern.hpp"

namespace tpinfer::test {
namespace {

std::vector<std::string> cut(std::string_view text, const std::vector<Span>& spans) {
  std::vector<std::string> parts;
  for (const Span& span : spans) parts.emplace_back(text.substr(span.begin, span.end - span.begin));
  return parts;
}

std::vector<std::string> split(std::string_view text, const Pattern& pattern, SplitBehavior behavior,
                               bool invert = false) {
  Splitter splitter;
  return cut(text, splitter.split(text, pattern, behavior, invert));
}

using Parts = std::vector<std::string>;

TEST(Split, BehavesAsDocumented) {
  const Pattern dash = std::string("-");
  EXPECT_EQ(split("the-final--countdown", dash, SplitBehavior::removed), (Parts{"the", "final", "countdown"}));
  EXPECT_EQ(split("the-final--countdown", dash, SplitBehavior::isolated),
            (Parts{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("the-final--countdown", dash, SplitBehavior::merged_with_previous),
            (Parts{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("the-final--countdown", dash, SplitBehavior::merged_with_next),
            (Parts{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("the-final--countdown", dash, SplitBehavior::contiguous),
            (Parts{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split("the-final--countdown", dash, SplitBehavior::removed, true), (Parts{"-", "-", "-"}));
  EXPECT_EQ(split("--a", dash, SplitBehavior::contiguous), (Parts{"--", "a"}));
  EXPECT_EQ(split("", dash, SplitBehavior::isolated), Parts{});
}

TEST(Split, WordsAreRunsOfOneKind) {
  EXPECT_EQ(split(" h\xC3\xA9llo, w_o!! 12", WordPattern{}, SplitBehavior::removed, true),
            (Parts{"h\xC3\xA9llo", ",", "w_o", "!!", "12"}));
}

TEST(Regex, EmptyMatchesDoNotLoop) {
  std::vector<Span> spans;
  Regex("x*", "here").find_all("axb", spans);
  EXPECT_EQ(cut("axb", spans), (Parts{"", "x", ""}));  // before a, x, behind b; none right behind the x
  spans.clear();
  Regex("", "here").find_all("\xC3\xA9", spans);
  EXPECT_EQ(spans.size(), 2U);
}

TEST(Regex, MatchesThatNeverEndAreRefused) {
  std::vector<Span> spans;
  EXPECT_ANY_THROW(Regex("(a+)+$", "here").find_all(std::string(60, 'a') + "b", spans));
}

// The patterns by hand against Oniguruma, on texts of what the patterns tell apart.
void expect_agreement(std::string_view pattern, void (*by_hand)(std::string_view, std::vector<Span>&)) {
  static constexpr std::string_view kParts[] = {" ",
                                                "  ",
                                                "\n",
                                                "\t",
                                                "\xC2\xA0",
                                                "\xE3\x80\x80",
                                                "'",
                                                "'s",
                                                "'LL",
                                                "'re",
                                                "a",
                                                "Z",
                                                "ve",
                                                "\xC3\xA9",
                                                "\xE5\xAD\x97",
                                                "1",
                                                "\xC2\xB2",
                                                "\xD9\xA3",
                                                "!",
                                                "-",
                                                "_",
                                                "\xF0\x9F\x98\x80",
                                                "e\xCC\x81",
                                                "\xE2\x80\x8B",
                                                "\xC2\x85",
                                                "\xE2\x85\xA7",
                                                "\x1C",
                                                "\r\n",
                                                "l",
                                                "d",
                                                "S",
                                                "\xC5\xBF",
                                                "\xE2\x84\xAA",
                                                "\xEF\xAC\x85",
                                                "\r",
                                                " \n ",
                                                "vE"};
  const Regex regex{std::string(pattern), "here"};
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = 1 + random() % 10; n > 0; --n) text += kParts[random() % std::size(kParts)];
    std::vector<Span> found;
    std::vector<Span> expected;
    by_hand(text, found);
    regex.find_all(text, expected);
    ASSERT_EQ(cut(text, found), cut(text, expected));
  }
}

TEST(PatternsByHand, AgreeWithTheRegularExpressions) {
  expect_agreement(kGpt2Regex, find_gpt2_matches);
  expect_agreement(kWordRegex, [](std::string_view text, auto& matches) { find_word_matches(text, 1, matches); });
  expect_agreement(kWordRegexThreeDigits,
                   [](std::string_view text, auto& matches) { find_word_matches(text, 3, matches); });
}

// Each character by itself and between letters. The newest letters and numbers are the reference's, not Oniguruma's.
TEST(PatternsByHand, TakeEachCharacterAsTheRegularExpressionDoes) {
  const Regex regex{std::string(kWordRegex), "here"};
  std::size_t differing = 0;
  std::string text;
  std::vector<Span> found, expected;
  for (char32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    text = "'";
    append_utf8(text, c);
    text += "x";
    append_utf8(text, c);
    found.clear();
    expected.clear();
    find_word_matches(text, 1, found);
    regex.find_all(text, expected);
    differing += cut(text, found) != cut(text, expected);
  }
  EXPECT_LT(differing, 1500U);
}

}  // namespace
}  // namespace tpinfer::test
