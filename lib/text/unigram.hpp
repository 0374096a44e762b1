#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/merge_table.hpp"
#include "text/place.hpp"
#include "text/vocabulary.hpp"

namespace tpinfer {

class PieceCache;

/// The "Unigram" model of a tokenizer.json: cuts a piece into the tokens whose scores add up to the most. Immutable
/// apart from a cache that is safe for several threads.
class Unigram {
 public:
  explicit Unigram(const Place& model);
  ~Unigram();
  Unigram(Unigram&&) noexcept;

  const Vocabulary& vocabulary() const { return vocabulary_; }

  static constexpr std::size_t kMaxPiece = std::size_t{1} << 26;  // bytes
  static constexpr std::size_t kMaxToken = 1024;                  // bytes: time is (length of the text) x (of a token)

  /// Appends the ids of `piece` (valid UTF-8). Characters without a token, fused with their neighbours, become bytes
  /// where byte_fallback says so and all are there, otherwise the unknown token. Error(input) for a longer piece than
  /// kMaxPiece, and where there is no unknown token.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  // How the best cut of the text up to a place ends.
  struct Best {
    double score = 0;
    std::int32_t id = 0;
    std::int32_t begin = -1;  // of the last token; -1: no cut ends here
  };

  void read_vocabulary(const Place& place);
  void build_trie(std::vector<std::string_view> tokens);
  void extend(std::string_view piece, std::size_t at, std::vector<Best>& best) const;
  std::int32_t unknown_id(std::string_view piece) const;
  void append(std::string_view token, std::vector<std::int32_t>& ids) const;

  std::string where_;
  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  std::optional<std::int32_t> unknown_;
  std::optional<std::array<std::int32_t, 256>> byte_ids_;  // byte_fallback: the ids of <0x00> ... <0xFF>, -1 where none
  MergeTable trie_;  // (node, byte) -> the next node; the rank is the id of the token that ends there, or kNoToken
  std::unique_ptr<PieceCache> cache_;
};

}  // namespace tpinfer
