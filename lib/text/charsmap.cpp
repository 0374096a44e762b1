#include "text/charsmap.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "text/utf8.hpp"

namespace tpinfer {
namespace {

// No string of the table is this long; longer clusters are taken apart at once.
constexpr std::size_t kLongCluster = 6;
constexpr std::size_t kLongestReplacement = 256;  // bytes

// The six bits that a character of base64 stands for, -1 for others.
int base64_bits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string decode_base64(const Place& place) {
  std::string_view text = place.string();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t held = 0;
  unsigned count = 0;
  for (const char c : text) {
    const int bits = base64_bits(c);
    if (bits < 0) place.fail("is not base64");
    held = (held << 6) | static_cast<std::uint32_t>(bits);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(static_cast<unsigned char>(held >> count));
  }
  return bytes;
}

// The end of the cluster of characters (what a reader takes for one) that begins at `at`.
std::size_t cluster_end(std::string_view text, std::size_t at) {
  CodePoint previous = code_point_at(text, at);
  utf8proc_int32_t state = 0;
  at += previous.size;
  while (at < text.size()) {
    const CodePoint next = code_point_at(text, at);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state))
      break;
    previous = next;
    at += next.size;
  }
  return at;
}

}  // namespace

Charsmap::Charsmap(const Place& place) {
  const std::string bytes = decode_base64(place);
  std::uint32_t size = 0;
  if (bytes.size() < sizeof(size)) place.fail("is too short for a table of characters");
  std::memcpy(&size, bytes.data(), sizeof(size));
  if (size % sizeof(std::uint32_t) != 0 || size > bytes.size() - sizeof(size))
    place.fail("is damaged: its index of {} bytes does not fit into {}", size, bytes.size());
  trie_.resize(size / sizeof(std::uint32_t));
  std::memcpy(trie_.data(), bytes.data() + sizeof(size), size);
  replacements_ = bytes.substr(sizeof(size) + size);
  if (!is_valid_utf8(replacements_)) place.fail("is damaged: its texts are not valid UTF-8");
  for (std::size_t at = 0, end = 0; at < replacements_.size(); at = end + 1) {
    end = std::min(replacements_.find('\0', at), replacements_.size());
    if (end - at > kLongestReplacement) place.fail("holds a text of more than {} bytes", kLongestReplacement);
  }
}

// What the shortest string of the table that `part` begins with becomes.
std::optional<std::string_view> Charsmap::replacement(std::string_view part) const {
  const auto label = [](std::uint32_t unit) { return unit & ((std::uint32_t{1} << 31) | 0xFF); };
  const auto offset = [](std::uint32_t unit) { return std::size_t{(unit >> 10) << ((unit & (1U << 9)) >> 6)}; };
  if (trie_.empty()) return std::nullopt;
  std::size_t node = offset(trie_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) break;
    node ^= byte;
    if (node >= trie_.size() || label(trie_[node]) != byte) break;
    const bool has_leaf = (trie_[node] >> 8) & 1;
    node ^= offset(trie_[node]);
    if (node >= trie_.size()) break;
    if (!has_leaf) continue;
    const std::size_t begin = trie_[node] & 0x7FFFFFFF;
    if (begin >= replacements_.size() || (replacements_[begin] & 0xC0) == 0x80) break;  // damaged
    return std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin);
  }
  return std::nullopt;
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = cluster_end(text, at);
    const std::string_view cluster = text.substr(at, end - at);
    const auto whole = cluster.size() < kLongCluster ? replacement(cluster) : std::nullopt;
    if (whole) {
      out += *whole;
      at = end;
      continue;
    }
    while (at < end) {
      const std::string_view character = text.substr(at, code_point_at(text, at).size);
      out += replacement(character).value_or(character);
      at += character.size();
    }
  }
  return out;
}

}  // namespace tpinfer
