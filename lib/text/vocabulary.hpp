#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/place.hpp"

namespace tpinfer {

/// Ids lie below this: more than any vocabulary needs, and little memory for a file that claims more.
inline constexpr std::int64_t kTokenIdLimit = std::int64_t{1} << 22;

/// Tokens and their ids, both ways. Ids may have gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Reads {"token": id, ...}; Error(input) for a wrong type, an id out of range, and two tokens with the same id.
  explicit Vocabulary(const Place& place);
  /// The tokens by id. Of two equal tokens the later id is that of the token, as in the reference.
  explicit Vocabulary(const std::vector<std::string_view>& tokens);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  std::optional<std::int32_t> id(std::string_view token) const;
  bool has(std::int32_t id) const { return token_or_null(id).data() != nullptr; }
  /// The token of `id`; empty when there is none.
  std::string_view token(std::int32_t id) const { return token_or_null(id); }
  /// The highest id + 1.
  std::int32_t id_end() const { return static_cast<std::int32_t>(tokens_.size()); }

 private:
  std::string_view token_or_null(std::int32_t id) const {
    return id >= 0 && id < id_end() ? tokens_[static_cast<std::size_t>(id)] : std::string_view();
  }
  std::string_view keep(std::string_view token);

  std::vector<char> bytes_;               // all tokens, one behind the other; never moves
  std::vector<std::string_view> tokens_;  // by id; data() is null where no token has the id
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

}  // namespace tpinfer
