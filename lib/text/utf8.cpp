#include "text/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace tpinfer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Form { valid, invalid, incomplete };

struct Sequence {
  Form form;
  std::size_t size;  // bytes of the character, or of the maximal part that can not be completed
};

struct SecondByte {
  unsigned char low, high;
};

// The Unicode standard's table 3-7: only the second byte has limits of its own.
SecondByte second_byte_limits(unsigned char first) {
  switch (first) {
    case 0xE0: return {0xA0, 0xBF};
    case 0xED: return {0x80, 0x9F};
    case 0xF0: return {0x90, 0xBF};
    case 0xF4: return {0x80, 0x8F};
    default: return {0x80, 0xBF};
  }
}

Sequence first_sequence(const char* text, std::size_t length) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {Form::valid, 1};
  if (first < 0xC2 || first > 0xF4) return {Form::invalid, 1};
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == length) return {Form::incomplete, i};
    const SecondByte limits = i == 1 ? second_byte_limits(first) : SecondByte{0x80, 0xBF};
    if (byte(i) < limits.low || byte(i) > limits.high) return {Form::invalid, i};
  }
  return {Form::valid, size};
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t block = 0;
    if (text.size() - at >= sizeof(block)) {
      std::memcpy(&block, text.data() + at, sizeof(block));
      if ((block & kHighBits) == 0) {
        at += sizeof(block);
        continue;
      }
    }
    const Sequence next = first_sequence(text.data() + at, text.size() - at);
    if (next.form != Form::valid) return at;
    at += next.size;
  }
  return std::string_view::npos;
}

bool is_valid_utf8(std::string_view text) noexcept { return find_invalid_utf8(text) == std::string_view::npos; }

CodePoint code_point_at(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {((first & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {((first & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F), 3};
  return {((first & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F), 4};
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

void LossyUtf8::push(std::string_view bytes, std::string& out) {
  pending_.append(bytes);
  std::size_t at = 0;
  while (at < pending_.size()) {
    const Sequence next = first_sequence(pending_.data() + at, pending_.size() - at);
    if (next.form == Form::incomplete) break;
    out.append(next.form == Form::valid ? std::string_view(pending_).substr(at, next.size) : kReplacement);
    at += next.size;
  }
  pending_.erase(0, at);
}

void LossyUtf8::finish(std::string& out) {
  if (!pending_.empty()) out.append(kReplacement);
  pending_.clear();
}

}  // namespace tpinfer
