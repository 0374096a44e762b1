#include "text/byte_alphabet.hpp"

#include <array>

namespace tpinfer {
namespace {

struct Alphabet {
  std::array<std::array<char, 2>, 256> text{};
  std::array<unsigned char, 256> size{};
  std::array<short, 0x144> byte{};  // by code point; -1 where a character stands for no byte
};

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (auto& byte : a.byte) byte = -1;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned c = stands_for_itself(byte) ? byte : next++;
    a.byte[c] = static_cast<short>(byte);
    a.size[byte] = c < 0x80 ? 1 : 2;
    a.text[byte] = c < 0x80
                       ? std::array<char, 2>{static_cast<char>(c), 0}
                       : std::array<char, 2>{static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))};
  }
  return a;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string_view byte_character(unsigned char byte) noexcept {
  return {kAlphabet.text[byte].data(), kAlphabet.size[byte]};
}

std::optional<unsigned char> byte_of_character(char32_t c) noexcept {
  if (c >= kAlphabet.byte.size() || kAlphabet.byte[c] < 0) return std::nullopt;
  return static_cast<unsigned char>(kAlphabet.byte[c]);
}

}  // namespace tpinfer
