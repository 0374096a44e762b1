#include "text/gpt2_pattern.hpp"

#include <array>
#include <cstdint>

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

enum class Kind : std::uint8_t { letter, number, space, other };

Kind kind_of_code_point(char32_t c) noexcept {
  if (is_letter(c)) return Kind::letter;
  if (is_number(c)) return Kind::number;
  return is_space(c) ? Kind::space : Kind::other;
}

struct Character {
  Kind kind;
  std::size_t size;
};

Character character_at(std::string_view text, std::size_t at) noexcept {
  static const std::array<Kind, 128> kAscii = [] {
    std::array<Kind, 128> kinds{};
    for (std::size_t c = 0; c < kinds.size(); ++c) kinds[c] = kind_of_code_point(static_cast<char32_t>(c));
    return kinds;
  }();
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {kAscii[byte], 1};
  const CodePoint next = code_point_at(text, at);
  return {kind_of_code_point(next.value), next.size};
}

std::size_t contraction_size(std::string_view text) noexcept {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

// The end of the run of `kind` from `at` on; `last_begin` becomes where its last character begins.
std::size_t run_end(std::string_view text, std::size_t at, Kind kind, std::size_t& last_begin) noexcept {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    last_begin = at;
    at += next.size;
  }
  return at;
}

std::size_t match_end(std::string_view text, std::size_t begin) noexcept {
  if (text[begin] == '\'') {
    if (const std::size_t size = contraction_size(text.substr(begin, 3))) return begin + size;
  }
  std::size_t last = begin;
  const std::size_t after_space = text[begin] == ' ' ? begin + 1 : begin;
  if (after_space < text.size()) {
    const Kind kind = character_at(text, after_space).kind;
    if (kind != Kind::space) return run_end(text, after_space, kind, last);
  }
  const std::size_t end = run_end(text, begin, Kind::space, last);
  // white space before a word leaves its last character to the word, unless it is alone
  return end < text.size() && last > begin ? last : end;
}

}  // namespace

void find_gpt2_matches(std::string_view text, std::vector<Span>& matches) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = match_end(text, at);
    matches.push_back({at, end});
    at = end;
  }
}

}  // namespace tpinfer
