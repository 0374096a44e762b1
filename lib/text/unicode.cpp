#include "text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "text/unicode_tables.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

bool lies_in(char32_t c, std::span<const CodePointRange> ranges) noexcept {
  const auto found = std::lower_bound(ranges.begin(), ranges.end(), c,
                                      [](const CodePointRange& range, char32_t value) { return range.last < value; });
  return found != ranges.end() && found->first <= c;
}

utf8proc_category_t category(char32_t c) noexcept { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

bool is_ascii_letter(char32_t c) noexcept { return (c | 0x20U) - U'a' < 26; }
bool is_ascii_digit(char32_t c) noexcept { return c - U'0' < 10; }

bool is_mark_category(utf8proc_category_t k) noexcept {
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
}
bool is_letter_category(utf8proc_category_t k) noexcept {
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_number_category(utf8proc_category_t k) noexcept {
  return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

int combining_class(utf8proc_int32_t c) noexcept { return utf8proc_get_property(c)->combining_class; }

// Sorts the marks behind each base character, as a normal form wants it. utf8proc's own sorting takes time n^2.
void sort_marks(std::vector<utf8proc_int32_t>& text) {
  for (auto at = text.begin(); at != text.end();) {
    const auto is_base = [](utf8proc_int32_t c) { return combining_class(c) == 0; };
    at = std::find_if_not(at, text.end(), is_base);
    const auto end = std::find_if(at, text.end(), is_base);
    std::stable_sort(at, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

// Appends the decomposed characters to `out`, sorted and composed where the form says so, and empties them.
void flush_normal_form(std::vector<utf8proc_int32_t>& text, NormalForm form, std::string& out) {
  sort_marks(text);
  auto size = static_cast<utf8proc_ssize_t>(text.size());
  if (form == NormalForm::nfc || form == NormalForm::nfkc)
    size =
        utf8proc_normalize_utf32(text.data(), size, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < size; ++i)
    append_utf8(out, static_cast<char32_t>(text[static_cast<std::size_t>(i)]));
  text.clear();
}

void append_decomposition(char32_t c, NormalForm form, std::vector<utf8proc_int32_t>& text) {
  constexpr std::size_t kLongest = 32;  // the longest decomposition has 18 characters
  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  std::array<utf8proc_int32_t, kLongest> parts;
  int boundary = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), kLongest,
                                                        static_cast<utf8proc_option_t>(options), &boundary);
  if (size < 0 || size > static_cast<utf8proc_ssize_t>(kLongest))
    throw Error(ExitCode::internal, fmt::format("U+{:04X} can not be normalized", static_cast<std::uint32_t>(c)));
  text.insert(text.end(), parts.begin(), parts.begin() + size);
}

bool is_unchanged_by_nfc(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    if (next.value >= 0x300 && !lies_in(next.value, kUnchangedByNfc)) return false;
    at += next.size;
  }
  return true;
}

char32_t lower_case_of(char32_t c) noexcept {
  for (const LowerCaseRange& range : kNewLowerCase)
    if (c >= range.first && c <= range.last) return range.lower + (c - range.first);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace

bool is_letter(char32_t c) noexcept {
  if (c < 0x80) return is_ascii_letter(c);
  return is_letter_category(category(c)) || lies_in(c, kNewLetters);
}

bool is_number(char32_t c) noexcept {
  if (c < 0x80) return is_ascii_digit(c);
  return is_number_category(category(c)) || lies_in(c, kNewNumbers);
}

bool is_numeric(char32_t c) noexcept { return is_number(c) || lies_in(c, kNewNumerics); }

bool is_space(char32_t c) noexcept {
  if (c < 0x80) return c == U' ' || (c >= 0x09 && c <= 0x0D);
  if (c < 0x1680) return c == 0x85 || c == 0xA0;
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word(char32_t c) noexcept {
  if (c < 0x80) return is_ascii_letter(c) || is_ascii_digit(c) || c == U'_';
  // letter-like symbols and the two joiners are word characters without being letters
  static constexpr CodePointRange kOthers[] = {
      {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  const utf8proc_category_t k = category(c);
  return is_letter_category(k) || is_mark_category(k) || k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL ||
         k == UTF8PROC_CATEGORY_PC || lies_in(c, kOthers) || lies_in(c, kNewWordCharacters);
}

bool is_punctuation(char32_t c) noexcept {
  if (c < 0x80) return c > 0x20 && c < 0x7F && !is_ascii_letter(c) && !is_ascii_digit(c);
  const utf8proc_category_t k = category(c);
  const bool known = k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
  return known ? !lies_in(c, kLaterPunctuation) : lies_in(c, kMorePunctuation);
}

bool is_accent(char32_t c) noexcept {
  if (c < 0x300) return false;
  return is_mark_category(category(c)) ? !lies_in(c, kLaterAccents) : lies_in(c, kMoreAccents);
}

std::string normal_form(std::string_view text, NormalForm form) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii || (form == NormalForm::nfc && is_unchanged_by_nfc(text))) return std::string(text);
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> pending;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    at += next.size;
    if (next.value >= 0x300 && lies_in(next.value, kLaterNormalization)) {
      flush_normal_form(pending, form, out);
      append_utf8(out, next.value);
    } else {
      append_decomposition(next.value, form, pending);
    }
  }
  flush_normal_form(pending, form, out);
  return out;
}

std::string lower_case(std::string_view text) {
  constexpr char32_t kDottedI = 0x130;  // the one character whose lower case is two
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    at += next.size;
    if (next.value == kDottedI) {
      out += "i\xCC\x87";
    } else {
      append_utf8(out, lower_case_of(next.value));
    }
  }
  return out;
}

}  // namespace tpinfer
