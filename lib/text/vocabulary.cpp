#include "text/vocabulary.hpp"

#include <algorithm>

namespace tpinfer {

Vocabulary::Vocabulary(const Place& place) {
  if (!place.value().is_object()) place.fail("must be an object of tokens and ids");
  std::size_t bytes = 1;  // one more, so that even the empty token has an address
  std::int64_t end = 0;
  for (const auto& [token, id] : place.value().items()) {
    bytes += token.size();
    if (!id.is_number_integer()) place.fail("the id of \"{}\" must be an integer, not {}", token, id.type_name());
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(kTokenIdLimit))
      place.fail("the id {} of \"{}\" is outside of 0 to {}", id.dump(), token, kTokenIdLimit - 1);
    end = std::max(end, id.get<std::int64_t>() + 1);
  }
  bytes_.reserve(bytes);
  tokens_.resize(static_cast<std::size_t>(end));
  ids_.reserve(place.value().size());
  for (const auto& [token, value] : place.value().items()) {
    const auto id = value.get<std::int32_t>();
    const std::string_view copy = keep(token);
    std::string_view& slot = tokens_[static_cast<std::size_t>(id)];
    if (slot.data() != nullptr) place.fail("the tokens \"{}\" and \"{}\" have the same id {}", slot, token, id);
    slot = copy;
    ids_.emplace(copy, id);
  }
}

Vocabulary::Vocabulary(const std::vector<std::string_view>& tokens) {
  std::size_t bytes = 1;
  for (const std::string_view token : tokens) bytes += token.size();
  bytes_.reserve(bytes);
  tokens_.reserve(tokens.size());
  ids_.reserve(tokens.size());
  for (const std::string_view token : tokens) {
    const std::string_view copy = keep(token);
    ids_.insert_or_assign(copy, static_cast<std::int32_t>(tokens_.size()));
    tokens_.push_back(copy);
  }
}

// Within the memory that is reserved.
std::string_view Vocabulary::keep(std::string_view token) {
  const std::string_view copy(bytes_.data() + bytes_.size(), token.size());
  bytes_.insert(bytes_.end(), token.begin(), token.end());
  return copy;
}

std::optional<std::int32_t> Vocabulary::id(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tpinfer
