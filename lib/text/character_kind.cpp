#include "text/character_kind.hpp"

#include "text/unicode.hpp"

namespace tpinfer {

const CharacterKinds& CharacterKinds::table() {
  static const CharacterKinds kTable;
  return kTable;
}

CharacterKinds::CharacterKinds() {
  for (std::size_t c = 0; c < kinds_.size(); ++c) kinds_[c] = of(static_cast<char32_t>(c));
}

CharacterKind CharacterKinds::of(char32_t c) noexcept {
  if (is_letter(c)) return CharacterKind::letter;
  if (is_number(c)) return CharacterKind::number;
  return is_space(c) ? CharacterKind::space : CharacterKind::other;
}

}  // namespace tpinfer
