#include "text/jinja/literal.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "text/jinja/python_text.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

constexpr int kNoDigit = 99;

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : kNoDigit;
}

void append_escaped(std::string& out, unsigned long code) {
  if (code > 0x10FFFF) fail("illegal Unicode character");
  if (code >= 0xD800 && code <= 0xDFFF) fail("half a surrogate pair in a string is not supported");
  append_utf8(out, static_cast<char32_t>(code));
}

// \xHH, \uHHHH, \UHHHHHHHH; `at` is at the letter.
void read_hex(std::string_view quoted, std::size_t& at, std::size_t digits, std::string& out) {
  unsigned long code = 0;
  const std::string_view text = quoted.substr(at + 1, digits);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
  if (text.size() != digits || error != std::errc() || end != text.data() + text.size())
    fail("truncated \\{} escape", quoted[at]);
  append_escaped(out, code);
  at += digits + 1;
}

void read_octal(std::string_view quoted, std::size_t& at, std::string& out) {
  unsigned long code = 0;
  for (int n = 0; n < 3 && at < quoted.size() && quoted[at] >= '0' && quoted[at] <= '7'; ++n, ++at)
    code = code * 8 + static_cast<unsigned long>(quoted[at] - '0');
  append_escaped(out, code);
}

// `at` is behind the backslash.
void read_escape(std::string_view quoted, std::size_t& at, std::string& out) {
  static constexpr std::string_view kLetters = "abfnrtv\\'\"";
  static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  const char letter = quoted[at];
  if (const auto place = kLetters.find(letter); place != std::string_view::npos) {
    out.push_back(kMeanings[place]);
    ++at;
  } else if (letter == '\n') {
    ++at;
  } else if (letter >= '0' && letter <= '7') {
    read_octal(quoted, at, out);
  } else if (letter == 'x') {
    read_hex(quoted, at, 2, out);
  } else if (letter == 'u') {
    read_hex(quoted, at, 4, out);
  } else if (letter == 'U') {
    read_hex(quoted, at, 8, out);
  } else if (letter == 'N' || static_cast<unsigned char>(letter) >= 0x80) {
    fail("the escape \\{} is not supported", quoted.substr(at, code_point_at(quoted, at).size));
  } else {
    out.push_back('\\');  // no escape: both stay
    out.push_back(letter);
    ++at;
  }
}

// The text without the underscores that Python allows between two digits; nothing where it does not.
std::optional<std::string> without_underscores(std::string_view text, int base) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || digit_value(text[i - 1]) >= base || digit_value(text[i + 1]) >= base) {
      return std::nullopt;
    }
  }
  return out;
}

// Python reads the digits of all scripts; we refuse rather than take them for no number.
void refuse_other_digits(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    fail("reading a number from a text with characters beyond ASCII is not supported");
}

// Takes the prefix of base 0, 2, 8 or 16 away; false when base 0 can not read this.
bool take_prefix(std::string_view& text, int& base) {
  const char letter = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int named = letter == 'x' ? 16 : (letter == 'o' ? 8 : (letter == 'b' ? 2 : 0));
  if (named && (base == 0 || base == named)) {
    base = named;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  } else if (base == 0) {
    base = 10;
    return !text.starts_with('0') || text.find_first_not_of("0_") == std::string_view::npos;
  }
  return true;
}

}  // namespace

std::string unescape(std::string_view quoted) {
  std::string out;
  for (std::size_t at = 0; at < quoted.size();) {
    if (quoted[at] == '\\' && at + 1 < quoted.size()) {
      ++at;
      read_escape(quoted, at, out);
    } else {
      out.push_back(quoted[at++]);
    }
  }
  return out;
}

std::size_t integer_end(std::string_view source, std::size_t at) {
  const auto char_at = [source](std::size_t i) { return i < source.size() ? source[i] : '\0'; };
  const auto run = [&char_at](std::size_t from, int base) {
    while (digit_value(char_at(from)) < base || (char_at(from) == '_' && digit_value(char_at(from + 1)) < base)) ++from;
    return from;
  };
  if (char_at(at) != '0') return run(at, 10);
  const char letter = static_cast<char>(char_at(at + 1) | 0x20);
  const int base = letter == 'x' ? 16 : (letter == 'o' ? 8 : (letter == 'b' ? 2 : 0));
  if (base) {
    const std::size_t end = run(at + 2, base);
    if (end != at + 2) return end;
  }
  return run(at, 1);
}

std::optional<Int> parse_int(std::string_view text, int base) {
  text = strip(text);
  refuse_other_digits(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (!take_prefix(text, base)) return std::nullopt;
  const auto digits = without_underscores(text, base);
  if (!digits || digits->empty()) return std::nullopt;
  Int number = 0;
  bool too_large = false;
  for (const char c : *digits) {
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    too_large |= __builtin_mul_overflow(number, static_cast<Int>(base), &number) ||
                 __builtin_add_overflow(number, static_cast<Int>(digit), &number);
  }
  if (too_large) fail("whole numbers beyond 127 bits are not supported");
  return negative ? -number : number;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text);
  refuse_other_digits(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string word = lower(text);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (word == "inf" || word == "infinity") return negative ? -kInfinity : kInfinity;
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word.find_first_not_of("0123456789._e+-") != std::string::npos) return std::nullopt;
  const auto digits = without_underscores(word, 10);
  if (!digits || digits->empty() || digits->front() == '-' || digits->front() == '+') return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), number);
  if (end != digits->data() + digits->size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) fail("the number {} is out of range", text);
  if (error != std::errc()) return std::nullopt;
  return negative ? -number : number;
}

}  // namespace tpinfer::jinja
