#include "text/unicode.hpp"

#include <gtest/gtest.h>

#include "text/normalizer.hpp"
#include "text/unicode_tables.hpp"
#include "text/utf8.hpp"

namespace tpinfer::test {
namespace {

TEST(Utf8, KnowsWhatIsValid) {
  for (const char* good : {"", "a", "\xC3\xA9", "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF", "abcdefgh\xE5\xAD\x97"})
    EXPECT_TRUE(is_valid_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xC0\xAF", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5",
                          "abcdefgh\xE5\xAD", "\xFF"})
    EXPECT_FALSE(is_valid_utf8(bad));
  EXPECT_EQ(find_invalid_utf8("abcdefghij\xC3(x"), 10U);
  EXPECT_TRUE(is_valid_utf8(std::string_view("\0", 1)));
}

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_TRUE(is_valid_utf8(text));
    ASSERT_EQ(code_point_at(text, 0).value, c);
    ASSERT_EQ(code_point_at(text, 0).size, text.size());
  }
}

std::string lossy(std::string_view bytes) {
  LossyUtf8 decoder;
  std::string text;
  for (const char byte : bytes) decoder.push(std::string_view(&byte, 1), text);
  decoder.finish(text);
  return text;
}

TEST(Utf8, BadBytesBecomeOneSignForEachMaximalPart) {
  const std::string sign = "\xEF\xBF\xBD";
  EXPECT_EQ(lossy("\xF0\x9F\x98"), sign);
  EXPECT_EQ(lossy("\xED\xA0\x80"), sign + sign + sign);
  EXPECT_EQ(lossy("\xC0\xAF"), sign + sign);
  EXPECT_EQ(lossy("\xE4\xBD"
                  "A"),
            sign + "A");
  EXPECT_EQ(lossy("a\xE5\xAD\x97"
                  "b"),
            "a\xE5\xAD\x97"
            "b");
}

std::string normal(std::u32string_view text, NormalForm form) {
  std::string utf8;
  for (const char32_t c : text) append_utf8(utf8, c);
  return normal_form(utf8, form);
}

std::string utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

TEST(NormalForm, ComposesAndSorts) {
  EXPECT_EQ(normal(U"e\u0301", NormalForm::nfc), utf8(U"\u00e9"));
  EXPECT_EQ(normal(U"\u00e9", NormalForm::nfd), utf8(U"e\u0301"));
  EXPECT_EQ(normal(U"s\u0307\u0323", NormalForm::nfc), utf8(U"\u1e69"));
  EXPECT_EQ(normal(U"\u0958\ufb1d", NormalForm::nfc), utf8(U"\u0915\u093c\u05d9\u05b4"));  // composition exclusions
  EXPECT_EQ(normal(U"\u1100\u1161\u11a8", NormalForm::nfc), utf8(U"\uac01"));
  EXPECT_EQ(normal(U"\ufb01\u00bd", NormalForm::nfkc), utf8(U"fi1\u20442"));
  EXPECT_EQ(normal(U"\u212b", NormalForm::nfkd), utf8(U"A\u030a"));
  // U+0898 is a mark since Unicode 14; the reference, which is older here, does not move it
  EXPECT_EQ(normal(U"a\u0898\u0323", NormalForm::nfd), utf8(U"a\u0898\u0323"));
}

// A mark behind the text makes all of it go the long way.
TEST(NormalForm, WhatNfcLeavesAloneStaysInAnyCompany) {
  const std::string ending = utf8(U"q\u0301");
  std::string all;
  for (const CodePointRange& range : kUnchangedByNfc)
    for (char32_t c = range.first; c <= range.last; ++c) {
      if (c == 0) continue;
      std::string text = "a";
      append_utf8(text, c);
      append_utf8(text, c);
      ASSERT_EQ(normal_form(text + ending, NormalForm::nfc), text + ending) << std::hex << static_cast<unsigned>(c);
      all += text;
    }
  EXPECT_EQ(normal_form(all, NormalForm::nfc), all);
  EXPECT_EQ(normal_form(all + ending, NormalForm::nfc), all + ending);
}

TEST(Normalizer, StepsRunInOrderAndPrependNeedsText) {
  const Json document = Json::parse(R"({"type":"Sequence","normalizers":[{"type":"Strip","strip_left":true,
      "strip_right":false},{"type":"Prepend","prepend":"> "},{"type":"Replace","pattern":{"String":" "},"content":"_"}]})");
  const Normalizer normalizer(Place(document, "normalizer"));
  EXPECT_EQ(normalizer.apply(" \xE3\x80\x80 a b "), ">_a_b_");
  EXPECT_EQ(normalizer.apply("  "), "");
}

TEST(Classes, HoldWhatTheReferenceHolds) {
  EXPECT_TRUE(is_space(0x85) && is_space(0xA0) && is_space(0x3000) && is_space(0x2028));
  EXPECT_FALSE(is_space(0x200B) || is_space(0x180E) || is_space(0xFEFF) || is_space(0x1C));
  EXPECT_TRUE(is_number(0xB2) && is_number(0xBD) && is_number(0x2167) && is_number(0x2460) && is_number(0x663));
  EXPECT_TRUE(is_letter(U'z') && is_letter(0x5B57) && is_letter(0x2EBF0));
  EXPECT_FALSE(is_letter(0x301) || is_letter(U'_'));
  EXPECT_TRUE(is_punctuation(U'$') && is_punctuation(0x3002) && is_punctuation(0x2026));
  EXPECT_FALSE(is_punctuation(0x20AC) || is_punctuation(0x2E52));
  EXPECT_TRUE(is_word(U'_') && is_word(0x301) && is_word(0x24B6) && is_word(0x200D));
  EXPECT_FALSE(is_word(U'-') || is_word(0xB2));
  EXPECT_TRUE(is_accent(0x301) && is_accent(0x20DD));
}

TEST(LowerCase, GoesCharacterByCharacter) {
  EXPECT_EQ(lower_case(utf8(U"\u00c9\u0130\u03a3 A\u1e9e")), utf8(U"\u00e9i\u0307\u03c3 a\u00df"));
}

}  // namespace
}  // namespace tpinfer::test
