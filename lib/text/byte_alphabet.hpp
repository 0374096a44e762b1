#pragma once

#include <optional>
#include <string_view>

namespace tpinfer {

/// The character (as UTF-8) that stands for a byte in byte-level vocabularies: printing Latin-1 characters stand for
/// themselves, the others for U+0100 and following.
std::string_view byte_character(unsigned char byte) noexcept;

/// The byte that a character stands for.
std::optional<unsigned char> byte_of_character(char32_t c) noexcept;

}  // namespace tpinfer
