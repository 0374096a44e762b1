#include "text/jinja/text_parts.hpp"

#include <algorithm>

#include "text/jinja/literal.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/python_text.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// The first white space at or behind `at`, or the end.
std::size_t find_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint next = code_point_at(text, at);
    if (is_python_space(next.value)) break;
    at += next.size;
  }
  return at;
}

// Where the word begins that ends at the end of `text`.
std::size_t last_word(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0) {
    std::size_t before = at - 1;
    while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
    if (is_python_space(code_point_at(text, before).value)) break;
    at = before;
  }
  return at;
}

// The fields of one format(): all with numbers or all without.
class Fields {
 public:
  explicit Fields(const Arguments& arguments) : arguments_(arguments) {}

  const Value& value(std::string_view field) {
    if (field.empty()) return positional(next_++);
    if (field.find_first_not_of("0123456789") == kNone) {
      numbered_ = true;
      return positional(*parse_int(field, 10));
    }
    if (field.find_first_of(".[:!{") != kNone) fail("format() with '{{{}}}' is not supported", field);
    const auto found = std::ranges::find(arguments_.named, field, &std::pair<std::string, Value>::first);
    if (found == arguments_.named.end()) fail("format() misses the argument '{}'", field);
    return found->second;
  }

 private:
  const Value& positional(Int place) {
    if (numbered_ && next_ > 0) fail("cannot switch between automatic field numbering and manual");
    if (place >= static_cast<Int>(arguments_.positional.size()))
      fail("Replacement index out of range for positional args tuple");
    return arguments_.positional[static_cast<std::size_t>(place)];
  }

  const Arguments& arguments_;
  Int next_ = 0;
  bool numbered_ = false;
};

}  // namespace

std::vector<std::string_view> split(std::string_view text, std::string_view separator, Int most) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (; most != 0; --most) {
    const std::size_t at = find_text(text, separator, begin);
    if (at == kNone) break;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<std::string_view> split_from_end(std::string_view text, std::string_view separator, Int most) {
  std::vector<std::string_view> parts;
  for (; most != 0; --most) {
    const std::size_t at = text.rfind(separator);
    if (at == kNone) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_space(std::string_view text, Int most) {
  std::vector<std::string_view> parts;
  for (text = strip_begin(text); !text.empty(); text = strip_begin(text)) {
    if (most == 0) {
      parts.push_back(strip_end(text));
      break;
    }
    --most;
    const std::size_t end = find_space(text, 0);
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split_space_from_end(std::string_view text, Int most) {
  std::vector<std::string_view> parts;
  for (text = strip_end(text); !text.empty(); text = strip_end(text)) {
    if (most == 0) {
      parts.push_back(strip_begin(text));
      break;
    }
    --most;
    const std::size_t begin = last_word(text);
    parts.push_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Value text_list(const std::vector<std::string_view>& parts, Budget& budget) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(make_text(std::string(part), budget));
  return make_list(std::move(items), budget);
}

std::string replace_text(std::string_view text, std::string_view old, std::string_view fresh, Int most,
                         Budget& budget) {
  budget.work(text.size());
  Output out(budget);
  if (old.empty()) {  // between all characters, and at both ends
    for (std::size_t at = 0; at <= text.size(); --most) {
      if (most == 0) {
        out.append(text.substr(at));
        break;
      }
      out.append(fresh);
      const std::size_t size = at < text.size() ? code_point_at(text, at).size : 1;
      out.append(text.substr(at, size));
      at += size;
    }
    return out.take();
  }
  const auto parts = split(text, old, most);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i) out.append(fresh);
    out.append(parts[i]);
  }
  return out.take();
}

std::string format_braces(std::string_view format, const Arguments& arguments, Budget& budget) {
  Output out(budget);
  Fields fields(arguments);
  for (std::size_t at = 0; at < format.size();) {
    const std::size_t mark = format.find_first_of("{}", at);
    out.append(format.substr(at, mark - at));
    if (mark == kNone) break;
    if (format.substr(mark + 1).starts_with(format[mark])) {  // doubled: the sign itself
      out.append(format.substr(mark, 1));
      at = mark + 2;
      continue;
    }
    const std::size_t end = format.find('}', mark + 1);
    if (format[mark] == '}') fail("Single '}}' encountered in format string");
    if (end == kNone) fail("Single '{{' encountered in format string");
    append_str(out, fields.value(format.substr(mark + 1, end - mark - 1)));
    at = end + 1;
  }
  return out.take();
}

bool has_case(std::string_view text, bool upper) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    at += next.size;
    if (!is_cased(next.value)) continue;
    if (upper ? !is_upper(next.value) : !is_lower(next.value)) return false;
    found = true;
  }
  return found;
}

bool is_digit_character(char32_t c) {
  if (is_decimal(c)) return true;
  if (c >= 0x80 && is_number(c)) fail("isdigit() of a number that is no decimal digit is not supported");
  return false;
}

bool is_alpha_character(char32_t c) { return is_letter(c); }
bool is_alnum_character(char32_t c) { return is_letter(c) || is_number(c); }
bool is_space_character(char32_t c) { return is_python_space(c); }

}  // namespace tpinfer::jinja
