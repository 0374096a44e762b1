#include <algorithm>
#include <cmath>

#include "text/jinja/print.hpp"
#include "text/utf8.hpp"

namespace tpinfer::jinja {
namespace {

void append_ascii(std::string& out, char32_t c) {
  auto code = static_cast<std::uint32_t>(c);
  if (code >= 0x10000) {
    code -= 0x10000;
    out += fmt::format("\\u{:04x}", 0xD800 + (code >> 10));
    code = 0xDC00 + (code & 0x3FF);
  }
  out += fmt::format("\\u{:04x}", code);
}

std::string json_text(std::string_view text, bool ensure_ascii) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
  static constexpr std::string_view kLetters = "\"\\nrtbf";
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, next.size);
    at += next.size;
    const auto special = next.size == 1 ? kEscaped.find(bytes[0]) : std::string_view::npos;
    if (special != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kLetters[special]);
    } else if (next.value < 0x20 || (ensure_ascii && next.value > 0x7E)) {
      append_ascii(out, next.value);
    } else {
      out += bytes;
    }
  }
  out.push_back('"');
  return out;
}

std::string json_real(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return repr(number);
}

class JsonWriter {
 public:
  JsonWriter(Output& out, const JsonStyle& style) : out_(out), style_(style) {}

  void append(const Value& value) {
    if (value.is_none()) return out_.append("null");
    if (const bool* flag = value.as_bool()) return out_.append(*flag ? "true" : "false");
    if (const Int* number = value.as_int()) return out_.append(repr(*number));
    if (const double* number = value.as_real()) return out_.append(json_real(*number));
    if (const Text* text = value.as_text()) return out_.append(json_text(text->bytes, style_.ensure_ascii));
    if (const auto* items = value.items()) return append_items(*items);
    if (const Dict* dict = value.as_dict()) return append_dict(*dict);
    fail("Object of type {} is not JSON serializable", type_name(value));
  }

 private:
  void new_line() {
    if (!style_.lines) return;
    out_.append("\n");
    out_.append(level_, style_.indent);
  }

  void append_items(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i) out_.append(style_.item_separator);
      new_line();
      append(items[i]);
    }
    --level_;
    new_line();
    out_.append("]");
  }

  void append_dict(const Dict& dict) {
    if (dict.items.empty()) return out_.append("{}");
    out_.append("{");
    ++level_;
    bool first = true;
    for (const auto* item : ordered(dict)) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      new_line();
      out_.append(json_text(key_of(item->first), style_.ensure_ascii));
      out_.append(style_.key_separator);
      append(item->second);
    }
    --level_;
    new_line();
    out_.append("}");
  }

  std::vector<const std::pair<Value, Value>*> ordered(const Dict& dict) {
    out_.budget().make(dict.items.size() * sizeof(void*));
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(), [this](const auto* a, const auto* b) {
        return compare(a->first, b->first, "<", out_.budget()) < 0;
      });
    return items;
  }

  static std::string key_of(const Value& key) {
    if (const Text* text = key.as_text()) return text->bytes;
    if (key.is_none()) return "null";
    if (const bool* flag = key.as_bool()) return *flag ? "true" : "false";
    if (const Int* number = key.as_int()) return repr(*number);
    if (const double* number = key.as_real()) return json_real(*number);
    fail("keys must be str, int, float, bool or None, not {}", type_name(key));
  }

  Output& out_;
  const JsonStyle& style_;
  std::size_t level_ = 0;
};

}  // namespace

void append_json(Output& out, const Value& value, const JsonStyle& style) { JsonWriter(out, style).append(value); }

}  // namespace tpinfer::jinja
