#include "text/word_pattern.hpp"

#include "text/character_kind.hpp"

namespace tpinfer {
namespace {

using Kind = CharacterKind;

// The bytes of an apostrophe and the letters of a contraction, in any case; 0 when there is none. U+017F is an s in
// upper or lower case.
std::size_t contraction_size(std::string_view text) noexcept {
  const auto letter = [&](std::size_t at) { return at < text.size() ? static_cast<char>(text[at] | 0x20) : '\0'; };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return letter(2) == 'e' ? 3 : 0;
    case 'l': return letter(2) == 'l' ? 3 : 0;
    default: return text.substr(1).starts_with("\xC5\xBF") ? 3 : 0;
  }
}

bool is_line_end(char c) noexcept { return c == '\r' || c == '\n'; }

// White space from `begin` on: up to its last line end; without one all of it, but for a last character that goes with
// what follows.
std::size_t space_match_end(std::string_view text, std::size_t begin, const CharacterKinds& kinds) noexcept {
  std::size_t last = begin;
  const std::size_t end = kinds.run_end(text, begin, Kind::space, last);
  const std::size_t line_end = text.substr(begin, end - begin).find_last_of("\r\n");
  if (line_end != std::string_view::npos) return begin + line_end + 1;
  return end < text.size() && last > begin ? last : end;
}

std::size_t match_end(std::string_view text, std::size_t begin, int most_digits, const CharacterKinds& kinds) noexcept {
  if (text[begin] == '\'') {
    if (const std::size_t size = contraction_size(text.substr(begin))) return begin + size;
  }
  const auto first = kinds.at(text, begin);
  const std::size_t second = begin + first.size;
  std::size_t last = begin;
  if (first.kind == Kind::letter) return kinds.run_end(text, second, Kind::letter, last);
  if (first.kind == Kind::number) {
    std::size_t end = second;
    for (int count = 1; count < most_digits && end < text.size(); ++count) {
      const auto next = kinds.at(text, end);
      if (next.kind != Kind::number) break;
      end += next.size;
    }
    return end;
  }
  const auto next_kind = second < text.size() ? kinds.at(text, second).kind : Kind::space;
  if (next_kind == Kind::letter && !is_line_end(text[begin])) return kinds.run_end(text, second, Kind::letter, last);
  if (first.kind == Kind::other || (text[begin] == ' ' && next_kind == Kind::other)) {
    std::size_t end = kinds.run_end(text, second, Kind::other, last);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  return space_match_end(text, begin, kinds);
}

}  // namespace

void find_word_matches(std::string_view text, int most_digits, std::vector<Span>& matches) {
  const CharacterKinds& kinds = CharacterKinds::table();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = match_end(text, at, most_digits, kinds);
    matches.push_back({at, end});
    at = end;
  }
}

}  // namespace tpinfer
