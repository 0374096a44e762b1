#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/merge_table.hpp"
#include "text/place.hpp"
#include "text/vocabulary.hpp"

namespace tpinfer {

class PieceCache;

/// Byte pair encoding: the "model" of a tokenizer.json. Immutable apart from a cache that locks.
class Bpe {
 public:
  /// Memory that one caller uses from piece to piece.
  class Scratch;

  explicit Bpe(const Place& model);
  ~Bpe();
  Bpe(Bpe&&) noexcept;

  const Vocabulary& vocabulary() const { return vocabulary_; }

  /// Positions in a piece are 32-bit numbers.
  static constexpr std::size_t kMaxPiece = std::size_t{1} << 28;  // bytes

  /// Appends the ids of `piece` (valid UTF-8). Time is n log n for any text. Error(input) for a longer piece than
  /// kMaxPiece.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids, Scratch& scratch) const;

 private:
  void read_merges(const Place& place);
  void find_word_starts();
  bool ends_with_stand_in(std::string_view text) const;
  void encode_word(std::string_view word, std::vector<std::int32_t>& ids, Scratch& scratch) const;
  std::optional<std::int32_t> symbol_id(std::string_view symbol) const;
  std::pair<std::string_view, std::string_view> merge_parts(const Place& place, std::size_t index) const;
  std::int32_t merge_id(const Place& place, std::size_t index, std::string_view token) const;
  void split_into_symbols(std::string_view piece, Scratch& scratch) const;
  void add_unknown(std::string_view symbol, std::optional<std::int32_t>& unknown, Scratch& scratch) const;
  void merge_symbols(Scratch& scratch) const;

  std::string where_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::string unk_token_;    // "": characters without a token are left out
  std::string word_prefix_;  // in front of each character but the first
  std::string word_suffix_;  // behind the last character
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;
  std::optional<std::array<std::int32_t, 256>> byte_ids_;  // byte_fallback: the ids of <0x00> ... <0xFF>, -1 where none
  std::array<std::int32_t, 128> ascii_ids_{};  // of the tokens that are one ASCII character, -1 where none is
  // The characters that some token has in front of a word mark: no merge reaches over a mark behind any other one.
  // Nothing where a piece must not be cut there.
  std::optional<std::vector<char32_t>> before_marks_;
  std::unique_ptr<PieceCache> cache_;
};

class Bpe::Scratch {
 private:
  friend class Bpe;
  // A doubly linked list over positions; -1 ends it. A symbol that was merged away has the id -1.
  struct Symbol {
    std::int32_t id;
    std::int32_t previous;
    std::int32_t next;
  };
  // The pair that begins at `position` may be merged; stale when its symbols have changed since.
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;
    std::int32_t result;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };

  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;  // smallest rank, then leftmost, on top
  std::string spelling;
};

}  // namespace tpinfer
