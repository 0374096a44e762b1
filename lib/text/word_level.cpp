#include "text/word_level.hpp"

#include "core/error.hpp"

namespace tpinfer {

WordLevel::WordLevel(const Place& model)
    : where_(model.name()),
      vocabulary_(model.at("vocab")),
      unknown_token_(model.string_or("unk_token", "")),
      unknown_(vocabulary_.id(unknown_token_)) {}

void WordLevel::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  const auto id = vocabulary_.id(piece);
  if (!id && !unknown_)
    fail_input("{}: \"{}\" has no token, and the unknown token \"{}\" is not in the vocabulary", where_, piece,
               unknown_token_);
  ids.push_back(id ? *id : *unknown_);
}

}  // namespace tpinfer
