#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/place.hpp"

namespace tpinfer {

/// The "Precompiled" normalizer of a tokenizer.json: SentencePiece's table of strings and what they become.
class Charsmap {
 public:
  /// Reads "precompiled_charsmap", which is base64; Error(input) when it is damaged.
  explicit Charsmap(const Place& place);

  /// `text` must be valid UTF-8.
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view part) const;

  std::vector<std::uint32_t> trie_;  // a double array as Darts writes it
  std::string replacements_;         // each ends in a zero byte
};

}  // namespace tpinfer
