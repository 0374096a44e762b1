#include "text/jinja/python_text.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "text/jinja/case_tables.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

constexpr char32_t kSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kDottedI = 0x130;

bool lies_in(char32_t c, std::span<const CodeRange> ranges) noexcept {
  const auto found = std::lower_bound(ranges.begin(), ranges.end(), c,
                                      [](const CodeRange& range, char32_t value) { return range.last < value; });
  return found != ranges.end() && found->first <= c;
}

utf8proc_category_t category(char32_t c) noexcept { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

const LongCase* long_case(char32_t c) noexcept {
  const auto found = std::lower_bound(std::begin(kLongCases), std::end(kLongCases), c,
                                      [](const LongCase& row, char32_t value) { return row.character < value; });
  return found != std::end(kLongCases) && found->character == c ? &*found : nullptr;
}

void append_upper(std::string& out, char32_t c) {
  if (const LongCase* row = long_case(c)) {
    for (const char32_t part : row->upper) append_utf8(out, part);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (const LongCase* row = long_case(c)) {
    for (const char32_t part : row->title) append_utf8(out, part);
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

// What the final sigma looks through: marks, modifiers, formats and punctuation inside words.
bool is_ignored(char32_t c) noexcept {
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || lies_in(c, kInsideWords);
}

// The start of the character before byte `at`, which is not 0.
std::size_t step_back(std::string_view text, std::size_t at) noexcept {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

// True when the sigma at byte `at` ends a word: a cased letter before it and none behind.
bool is_final_sigma(std::string_view text, std::size_t at) noexcept {
  std::size_t before = at;
  bool cased = false;
  while (before > 0) {
    before = step_back(text, before);
    const char32_t c = code_point_at(text, before).value;
    if (is_ignored(c)) continue;
    cased = is_cased(c);
    break;
  }
  if (!cased) return false;
  for (std::size_t next = at + 2; next < text.size();) {
    const CodePoint c = code_point_at(text, next);
    if (!is_ignored(c.value)) return !is_cased(c.value);
    next += c.size;
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, char32_t c) {
  if (c == kSigma) {
    append_utf8(out, is_final_sigma(text, at) ? kFinalSigma : kSmallSigma);
  } else if (c == kDottedI) {
    out += "i\xCC\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

// Calls `visit(character, byte, out)` for each character.
template <class Visit>
std::string map_characters(std::string_view text, Visit visit) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    visit(next.value, at, out);
    at += next.size;
  }
  return out;
}

bool is_line_end(char32_t c) noexcept {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool contains(std::string_view set, char32_t wanted) noexcept {
  for (std::size_t at = 0; at < set.size();) {
    const CodePoint next = code_point_at(set, at);
    if (next.value == wanted) return true;
    at += next.size;
  }
  return false;
}

template <class Drop>
std::string_view strip_begin_while(std::string_view text, Drop drop) noexcept {
  while (!text.empty()) {
    const CodePoint first = code_point_at(text, 0);
    if (!drop(first.value)) break;
    text.remove_prefix(first.size);
  }
  return text;
}

template <class Drop>
std::string_view strip_end_while(std::string_view text, Drop drop) noexcept {
  while (!text.empty()) {
    const std::size_t last = step_back(text, text.size());
    if (!drop(code_point_at(text, last).value)) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace

bool is_python_space(char32_t c) noexcept { return is_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_printable(char32_t c) noexcept {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  const utf8proc_category_t k = category(c);
  return k != UTF8PROC_CATEGORY_CN && (k < UTF8PROC_CATEGORY_ZS || k > UTF8PROC_CATEGORY_CO);
}

bool is_upper(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_LU || lies_in(c, kOtherUpper); }
bool is_lower(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_LL || lies_in(c, kOtherLower); }
bool is_cased(char32_t c) noexcept { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }
bool is_decimal(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_ND; }

std::size_t character_count(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::size_t byte_of_character(std::string_view text, std::size_t place) noexcept {
  std::size_t at = 0;
  for (; place > 0 && at < text.size(); --place) at += code_point_at(text, at).size;
  return std::min(at, text.size());
}

std::string reversed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t begin = step_back(text, end);
    out.append(text.substr(begin, end - begin));
    end = begin;
  }
  return out;
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) noexcept {
  if (from > text.size()) return std::string_view::npos;
  const std::string_view rest = text.substr(from);
  const void* found = ::memmem(rest.data(), rest.size(), part.data(), part.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

std::string_view strip_begin(std::string_view text) noexcept { return strip_begin_while(text, is_python_space); }
std::string_view strip_end(std::string_view text) noexcept { return strip_end_while(text, is_python_space); }
std::string_view strip(std::string_view text) noexcept { return strip_end(strip_begin(text)); }
std::string_view strip_begin(std::string_view text, std::string_view set) noexcept {
  return strip_begin_while(text, [set](char32_t c) { return contains(set, c); });
}
std::string_view strip_end(std::string_view text, std::string_view set) noexcept {
  return strip_end_while(text, [set](char32_t c) { return contains(set, c); });
}

std::string upper(std::string_view text) {
  return map_characters(text, [](char32_t c, std::size_t, std::string& out) { append_upper(out, c); });
}

std::string lower(std::string_view text) {
  return map_characters(text, [text](char32_t c, std::size_t at, std::string& out) { append_lower(out, text, at, c); });
}

std::string capitalize(std::string_view text) {
  return map_characters(text, [text](char32_t c, std::size_t at, std::string& out) {
    if (at == 0) {
      append_title(out, c);
    } else {
      append_lower(out, text, at, c);
    }
  });
}

std::string title(std::string_view text) {
  bool inside = false;  // behind a cased character
  return map_characters(text, [text, &inside](char32_t c, std::size_t at, std::string& out) {
    if (inside) {
      append_lower(out, text, at, c);
    } else {
      append_title(out, c);
    }
    inside = is_cased(c);
  });
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    if (!is_line_end(next.value)) {
      at += next.size;
      continue;
    }
    lines.push_back(text.substr(begin, at - begin));
    at += next.value == '\r' && text.substr(at + 1).starts_with('\n') ? 2 : next.size;
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace tpinfer::jinja
