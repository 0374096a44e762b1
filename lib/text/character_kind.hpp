#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/utf8.hpp"

namespace tpinfer {

/// What the patterns of byte-level tokenizers tell apart: \p{L}, \p{N}, \s and the rest.
enum class CharacterKind : std::uint8_t { letter, number, space, other };

/// Looks kinds up in a table, which is made at first use.
class CharacterKinds {
 public:
  static const CharacterKinds& table();

  struct Character {
    CharacterKind kind;
    std::size_t size;  // bytes
  };

  /// The character that begins at byte `at` of valid UTF-8.
  Character at(std::string_view text, std::size_t at) const noexcept {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) return {kinds_[byte], 1};
    const CodePoint next = code_point_at(text, at);
    return {next.value < kinds_.size() ? kinds_[next.value] : of(next.value), next.size};
  }

  /// The end of the run of `kind` from `at` on; `last` becomes where its last character begins, if it has one.
  std::size_t run_end(std::string_view text, std::size_t at, CharacterKind kind, std::size_t& last) const noexcept {
    while (at < text.size()) {
      const Character next = this->at(text, at);
      if (next.kind != kind) break;
      last = at;
      at += next.size;
    }
    return at;
  }

 private:
  CharacterKinds();
  static CharacterKind of(char32_t c) noexcept;

  std::array<CharacterKind, 0x10000> kinds_;  // by code point
};

}  // namespace tpinfer
