#include "text/jinja/print.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/cursor.hpp"
#include "text/jinja/objects.hpp"
#include "text/jinja/python_text.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

void append_character_repr(std::string& out, std::string_view bytes, char32_t c, char quote) {
  const auto code = static_cast<std::uint32_t>(c);
  if (c == static_cast<unsigned char>(quote) || c == U'\\') {
    out.push_back('\\');
    out += bytes;
  } else if (c == U'\n') {
    out += "\\n";
  } else if (c == U'\r') {
    out += "\\r";
  } else if (c == U'\t') {
    out += "\\t";
  } else if (is_printable(c)) {
    out += bytes;
  } else if (code < 0x100) {
    out += fmt::format("\\x{:02x}", code);
  } else {
    out += code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
  }
}

void append_text_repr(Output& out, const Text& text) {
  const bool single = text.bytes.find('\'') != std::string::npos;
  const bool twice = text.bytes.find('"') != std::string::npos;
  const char quote = single && !twice ? '"' : '\'';
  std::string shown(1, quote);
  for (std::size_t at = 0; at < text.bytes.size();) {
    const CodePoint next = code_point_at(text.bytes, at);
    append_character_repr(shown, std::string_view(text.bytes).substr(at, next.size), next.value, quote);
    at += next.size;
  }
  shown.push_back(quote);
  out.append(text.safe ? "Markup(" : "");
  out.append(shown);
  out.append(text.safe ? ")" : "");
}

class Repr {
 public:
  explicit Repr(Output& out) : out_(out) {}

  void append(const Value& value) {
    if (value.is_undefined()) return out_.append("Undefined");
    if (value.is_none()) return out_.append("None");
    if (const bool* flag = value.as_bool()) return out_.append(*flag ? "True" : "False");
    if (const Int* number = value.as_int()) return out_.append(repr(*number));
    if (const double* number = value.as_real()) return out_.append(repr(*number));
    if (const Text* text = value.as_text()) return append_text_repr(out_, *text);
    if (const List* list = value.as_list()) return append_items("[", list->items, "]");
    if (const Tuple* tuple = value.as_tuple())
      return append_items("(", tuple->items, tuple->items.size() == 1 ? ",)" : ")");
    if (const Dict* dict = value.as_dict()) return append_dict(dict->items);
    if (const auto* range = value.get<const Range>()) return append_range(*range);
    if (const auto* view = value.get<const DictView>()) return append_view(value, *view);
    if (const auto* space = value.get<Namespace>()) return append_namespace(*space);
    fail("a value of the type {} has no text", type_name(value));
  }

 private:
  void append_items(std::string_view open, const std::vector<Value>& items, std::string_view close) {
    out_.append(open);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out_.append(", ");
      append(items[i]);
    }
    out_.append(close);
  }

  void append_dict(const std::vector<std::pair<Value, Value>>& items) {
    out_.append("{");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out_.append(", ");
      append(items[i].first);
      out_.append(": ");
      append(items[i].second);
    }
    out_.append("}");
  }

  void append_range(const Range& range) {
    out_.append("range(" + repr(range.start) + ", " + repr(range.stop));
    if (range.step != 1) out_.append(", " + repr(range.step));
    out_.append(")");
  }

  void append_view(const Value& value, const DictView& view) {
    out_.append(type_name(value));
    out_.append("([");
    for (std::size_t i = 0; i < view.dict->items.size(); ++i) {
      if (i) out_.append(", ");
      append(view_item(view, i, out_.budget()));
    }
    out_.append("])");
  }

  // A namespace may hold itself.
  void append_namespace(const Namespace& space) {
    if (++namespaces_ > kMostNesting) fail("namespaces are nested deeper than {} levels", kMostNesting);
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : space.items) items.emplace_back(Value(name), value);
    out_.append("<Namespace ");
    append_dict(items);
    out_.append(">");
    --namespaces_;
  }

  Output& out_;
  int namespaces_ = 0;
};

}  // namespace

std::string repr(Int number) { return fmt::format("{}", number); }

std::string repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<std::size_t>(end - buffer));  // the fewest digits that round-trip
  const std::size_t mark = shortest.find('e');
  std::string digits;
  for (const char c : shortest.substr(0, mark))
    if (c >= '0' && c <= '9') digits.push_back(c);
  int exponent = 0;
  const std::string_view power = shortest.substr(mark + (shortest[mark + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  const std::string sign = number < 0 || shortest[0] == '-' ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    const std::string rest = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], rest, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_repr(Output& out, const Value& value) { Repr(out).append(value); }

void append_str(Output& out, const Value& value) {
  if (value.is_undefined()) return;
  if (const Text* text = value.as_text()) return out.append(text->bytes);
  append_repr(out, value);
}

void append_escaped(Output& out, const Text& text) {
  if (text.safe) return out.append(text.bytes);
  static constexpr std::string_view kSigns = "&<>'\"";
  static constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t next = std::min(text.bytes.find_first_of(kSigns, at), text.bytes.size());
    out.append(std::string_view(text.bytes).substr(at, next - at));
    if (next < text.bytes.size()) out.append(kNames[kSigns.find(text.bytes[next])]);
    at = next + 1;
  }
}

std::string str(const Value& value, Budget& budget) {
  Output out(budget);
  append_str(out, value);
  return out.take();
}

std::string repr(const Value& value, Budget& budget) {
  Output out(budget);
  append_repr(out, value);
  return out.take();
}

}  // namespace tpinfer::jinja
