#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/normalizer.hpp"
#include "text/pieces.hpp"
#include "text/place.hpp"
#include "text/vocabulary.hpp"

namespace tpinfer {

/// A token that is looked for in the text itself, before anything else sees it.
struct AddedToken {
  std::int32_t id;
  std::string content;
  bool single_word;  // only where no word character touches it
  bool lstrip;       // takes the white space in front with it
  bool rstrip;       // takes the white space behind with it
  bool normalized;   // looked for in the normalized text, in its normalized spelling
  bool special;      // left out when special tokens are skipped
};

/// Finds the longest of a set of strings that begins at a place.
class StringTrie {
 public:
  StringTrie() : nodes_(1) {}

  /// The first of two equal strings counts.
  void add(std::string_view text, std::size_t index);

  struct Found {
    std::size_t index;
    std::size_t size;
  };
  std::optional<Found> longest_at(std::string_view text, std::size_t at) const;
  /// Where the next string may begin, from `at` on; the text's size when none can.
  std::size_t next_start(std::string_view text, std::size_t at) const {
    while (at < text.size() && !starts_[static_cast<unsigned char>(text[at])]) ++at;
    return at;
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct Node {
    std::size_t index = kNone;
    std::vector<std::pair<char, std::size_t>> children;  // sorted
  };
  std::size_t child(std::size_t node, char byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> starts_{};  // whether some string begins with the byte
};

/// The "added_tokens" of a tokenizer.json.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// `list` may be absent. Error(input) for an id that another token of `vocabulary` or of the list has.
  AddedTokens(const std::optional<Place>& list, const Vocabulary& vocabulary, const Normalizer& normalizer);

  /// Cuts the added tokens out of `text` (valid UTF-8); what remains is normalized, each part for itself.
  Pieces extract(std::string_view text, const Normalizer& normalizer) const;

  /// Null when no added token has the id.
  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  std::int32_t id_end() const { return by_id_.empty() ? 0 : by_id_.rbegin()->first + 1; }

 private:
  void add(const Place& place, const Vocabulary& vocabulary);
  void build_trie(const Normalizer& normalizer, const Place& list);
  template <class Emit>
  void cut(std::string_view text, const StringTrie& trie, const Emit& emit) const;

  std::vector<AddedToken> tokens_;  // special ones first: of two equal spellings the first is found
  std::map<std::int32_t, std::size_t> by_id_;
  std::map<std::string, std::size_t, std::less<>> by_content_;
  StringTrie raw_;
  StringTrie normalized_;
};

}  // namespace tpinfer
