#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/json.hpp"

namespace tpinfer {

/// What Hugging Face's conversions take from a SentencePiece tokenizer.model.
struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };

  Kind kind = Kind::unigram;
  std::vector<Piece> pieces;  ///< by id; no text occurs twice
  std::string unk_piece = "<unk>";
};

/// Error(input), with the file's name, for a file that is no SentencePiece model or one of another kind (word, char).
SentencePieceModel read_sentencepiece_model(const std::filesystem::path& file);

/// The merges that a BPE model stands for: every split of every piece into two pieces as ["left", "right"], those of
/// higher scores first. Error(input), with the file's name, for millions of them.
Json sentencepiece_merges(const SentencePieceModel& model, const std::string& file);

}  // namespace tpinfer
