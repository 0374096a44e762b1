#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tpinfer {

/// One character of a text that is known to be valid UTF-8.
struct CodePoint {
  char32_t value;
  std::size_t size;  // bytes
};

/// True when every byte belongs to a well-formed sequence (no surrogates, nothing overlong, at most U+10FFFF).
bool is_valid_utf8(std::string_view text) noexcept;

/// Where the first malformed sequence begins, or npos.
std::size_t find_invalid_utf8(std::string_view text) noexcept;

/// The character that begins at byte `at` of valid UTF-8; `at` must lie inside the text.
CodePoint code_point_at(std::string_view text, std::size_t at) noexcept;

void append_utf8(std::string& out, char32_t code_point);

/// Turns a stream of bytes into text: one U+FFFD for each maximal part of a sequence that can not be completed. What
/// may still become a character is held back until the next bytes or finish().
class LossyUtf8 {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string pending_;  // at most 3 bytes between calls
};

}  // namespace tpinfer
