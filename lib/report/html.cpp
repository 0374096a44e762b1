#include "report/html.hpp"

namespace tpinfer {
namespace {

/// Length in bytes of the UTF-8 character that `text` begins with; 0 where it is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool none = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);  // surrogates, > U+10FFFF
  return overlong || none ? 0 : length;
}

/// Characters that no font shows but that change what others look like: C1 controls, and the marks that turn the
/// direction of writing for all that follows.
bool is_unseen(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE) ||
         (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '&': out += "&amp;"; return;
    case '<': out += "&lt;"; return;
    case '>': out += "&gt;"; return;
    case '"': out += "&quot;"; return;
    case '\'': out += "&#39;"; return;
    case '\n':
    case '\t': out += c; return;
    case 0x7F: out += "\u2421"; return;
    default: break;
  }
  if (c >= 0x20)
    out += c;
  else
    out += {'\xE2', '\x90', static_cast<char>(0x80 + c)};  // U+2400 + code
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0 || (length > 1 && is_unseen(text.substr(0, length))))
      out += "\uFFFD";
    else if (length == 1)
      append_ascii(out, text[0]);
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t characters) {
  std::string line;
  std::size_t used = 0, fits = 0;  // characters; bytes that leave one for the dots
  bool space = false;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(character_length(text), 1);
    const std::string_view character = text.substr(0, length);
    text.remove_prefix(length);
    if (is_space(character[0])) {
      space = !line.empty();
      continue;
    }
    used += space ? 2 : 1;
    if (used > characters) return line.substr(0, fits) + "…";
    if (space) line += ' ';
    line += character;
    space = false;
    if (used < characters) fits = line.size();
  }
  return line;
}

HtmlTable::HtmlTable(const std::vector<std::string>& head, std::size_t left, bool text_last)
    : left_(left), last_(text_last ? head.size() - 1 : 0) {
  body_ += Html("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
  for (std::size_t i = 0; i < head.size(); ++i) cell(html("{}", head[i]), i, "th");
  body_ += Html("</tr></thead><tbody>\n");
}

void HtmlTable::cell(const Html& content, std::size_t column, const char* tag) {
  body_ += Html(fmt::format("<{}{}>{}</{}>", tag, column < left_ || column == last_ ? "" : " class=\"n\"",
                            content.markup(), tag));
}

void HtmlTable::row(const std::vector<Html>& cells) {
  body_ += Html("<tr>");
  for (std::size_t i = 0; i < cells.size(); ++i) cell(cells[i], i, "td");
  body_ += Html("</tr>\n");
  ++rows_;
}

void HtmlTable::row(const std::vector<std::string>& cells) {
  std::vector<Html> safe;
  for (const std::string& text : cells) safe.push_back(html("{}", text));
  row(safe);
}

Html HtmlTable::done() const { return html("{}</tbody></table></div>\n", body_); }

Html folded(std::string_view summary, const Html& content) {
  return html("<details><summary>{}</summary>\n{}</details>\n", summary, content);
}

Html note(std::string_view text) { return html("<p class=\"note\">{}</p>\n", text); }

}  // namespace tpinfer
