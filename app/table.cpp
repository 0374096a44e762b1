#include "app/table.hpp"

#include <utf8proc.h>

#include <algorithm>

namespace tpinfer {

namespace {

struct Character {
  std::string_view bytes;  ///< empty at the end of the text
  utf8proc_int32_t code = 0;
};

/// The first character; an invalid byte counts as U+FFFD.
Character first_character(std::string_view text) {
  if (text.empty()) return {};
  Character found;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &found.code);
  if (length <= 0) return {text.substr(0, 1), 0xFFFD};
  found.bytes = text.substr(0, static_cast<std::size_t>(length));
  return found;
}

std::string picture(const Character& c) {
  if (c.code < 0x20) return {'\xE2', '\x90', static_cast<char>(0x80 + c.code)};  // U+2400 + code
  if (c.code == 0x7F) return "\u2421";
  const bool acted_upon = c.code < 0xA0 && c.code > 0x7F;  // C1 controls, among them another escape
  return acted_upon || c.code == 0xFFFD ? "\uFFFD" : std::string(c.bytes);
}

std::size_t cells(utf8proc_int32_t code) { return static_cast<std::size_t>(std::max(0, utf8proc_charwidth(code))); }

std::size_t cells(std::string_view text) {
  std::size_t count = 0;
  for (Character c = first_character(text); !c.bytes.empty(); c = first_character(text)) {
    count += cells(c.code);
    text.remove_prefix(c.bytes.size());
  }
  return count;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  for (Character c = first_character(text); !c.bytes.empty(); c = first_character(text)) {
    shown += c.code == '\n' || c.code == '\t' ? std::string(c.bytes) : picture(c);
    text.remove_prefix(c.bytes.size());
  }
  return shown;
}

std::string one_line(std::string_view text, std::size_t width) {
  std::string line;
  std::size_t used = 0, fits = 0;  // cells of `line`; bytes of it that leave a cell for the dots
  bool space = false;
  for (Character c = first_character(text); !c.bytes.empty(); c = first_character(text)) {
    text.remove_prefix(c.bytes.size());
    if (c.code == ' ' || (c.code >= '\t' && c.code <= '\r')) {
      space = !line.empty();
      continue;
    }
    const std::string shown = (space ? " " : "") + picture(c);
    used += cells(shown);
    space = false;
    if (used > width) return line.substr(0, fits) + "…";
    line += shown;
    if (used < width) fits = line.size();
  }
  return line;
}

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], cells(row[i]));
  std::string text;
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - cells(row[i]), ' ');
      text += i == 0 ? row[i] + pad : "  " + pad + row[i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace tpinfer
