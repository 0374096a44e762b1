#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/place.hpp"
#include "text/vocabulary.hpp"

namespace tpinfer {

/// A token for each whole piece, the unknown token for pieces that have none: the "WordLevel" model of a
/// tokenizer.json.
class WordLevel {
 public:
  explicit WordLevel(const Place& model);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Appends the id of `piece`. Error(input) for an unknown piece when the vocabulary lacks the unknown token.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  std::string where_;
  Vocabulary vocabulary_;
  std::string unknown_token_;
  std::optional<std::int32_t> unknown_;
};

}  // namespace tpinfer
