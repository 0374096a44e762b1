#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpinfer {

/// A part of a text on its way to ids: either one added token, or text that is still to be tokenized.
struct Piece {
  static constexpr std::int32_t kText = -1;

  std::size_t begin;  // bytes [begin, end) of Pieces::text
  std::size_t end;
  std::int32_t token;  // id of an added token, or kText
  // Begins where the whole input begins. The reference asks whether the original of its first character does: where a
  // normalizer has taken away or put in something at the very start, its prepend scheme "first" may differ.
  bool starts_document;
};

/// The parts of one input, in order, over one buffer. No part is empty.
struct Pieces {
  std::string text;
  std::vector<Piece> list;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
  void append(std::string_view part, std::int32_t token, bool starts_document) {
    if (part.empty()) return;
    list.push_back({text.size(), text.size() + part.size(), token, starts_document});
    text.append(part);
  }
};

}  // namespace tpinfer
