#include "text/gpt2_pattern.hpp"

#include "text/character_kind.hpp"

namespace tpinfer {
namespace {

using Kind = CharacterKind;

std::size_t contraction_size(std::string_view text) noexcept {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

std::size_t match_end(std::string_view text, std::size_t begin, const CharacterKinds& kinds) noexcept {
  if (text[begin] == '\'') {
    if (const std::size_t size = contraction_size(text.substr(begin, 3))) return begin + size;
  }
  std::size_t last = begin;
  const std::size_t after_space = text[begin] == ' ' ? begin + 1 : begin;
  if (after_space < text.size()) {
    const Kind kind = kinds.at(text, after_space).kind;
    if (kind != Kind::space) return kinds.run_end(text, after_space, kind, last);
  }
  const std::size_t end = kinds.run_end(text, begin, Kind::space, last);
  // white space before a word leaves its last character to the word, unless it is alone
  return end < text.size() && last > begin ? last : end;
}

}  // namespace

void find_gpt2_matches(std::string_view text, std::vector<Span>& matches) {
  const CharacterKinds& kinds = CharacterKinds::table();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = match_end(text, at, kinds);
    matches.push_back({at, end});
    at = end;
  }
}

}  // namespace tpinfer
