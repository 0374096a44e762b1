#include "output/stored_text.hpp"

#include <utf8proc.h>

namespace tpinfer {

namespace {

/// Bytes of the valid character that begins `text`, or 0 when there is none.
std::size_t character_length(std::string_view text) noexcept {
  if (static_cast<unsigned char>(text.front()) < 0x80) return 1;
  utf8proc_int32_t codepoint = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &codepoint);
  return length > 0 ? static_cast<std::size_t>(length) : 0;
}

}  // namespace

bool is_storable_text(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = text.front() == '\0' ? 0 : character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string storable_text(std::string_view text) {
  std::string stored;
  stored.reserve(text.size() + 8);
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0)
      stored += "\uFFFD";
    else if (text.front() == '\0')
      stored += "\u2400";
    else
      stored += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return stored;
}

}  // namespace tpinfer
