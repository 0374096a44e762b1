#pragma once

#include <string>
#include <string_view>

namespace tpinfer {

// Character classes and mappings as Hugging Face's tokenizers sees them. They come from utf8proc, with the differences
// between its Unicode version and the versions of the reference's several libraries in unicode_tables.hpp.

bool is_letter(char32_t c) noexcept;       // \p{L}
bool is_number(char32_t c) noexcept;       // \p{N}
bool is_numeric(char32_t c) noexcept;      // what Digits takes for a digit: \p{N} of a newer Unicode version
bool is_space(char32_t c) noexcept;        // \s, the property White_Space
bool is_word(char32_t c) noexcept;         // \w
bool is_punctuation(char32_t c) noexcept;  // ASCII punctuation (with symbols like $ and +) and \p{P}
bool is_accent(char32_t c) noexcept;       // what StripAccents takes away: \p{M} of an older Unicode version

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// `text` must be valid UTF-8.
std::string normal_form(std::string_view text, NormalForm form);

/// Lower case, character by character, without regard to the neighbours (no final sigma).
std::string lower_case(std::string_view text);

}  // namespace tpinfer
