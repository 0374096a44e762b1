#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "text/place.hpp"

namespace tpinfer {

/// The "post_processor" of a tokenizer.json: puts special tokens round the ids of one text.
class PostProcessor {
 public:
  using HasToken = std::function<bool(std::int32_t)>;

  PostProcessor() = default;
  /// Error(input) for a special token whose id no token has.
  PostProcessor(const Place& place, const HasToken& has_token) { read(place, has_token); }

  std::vector<std::int32_t> apply(std::vector<std::int32_t> ids, bool add_special_tokens) const;

 private:
  void read(const Place& place, const HasToken& has_token);
  void read_template(const Place& place, const HasToken& has_token);

  // A part of the result: special ids, or (nothing) the ids of the text.
  using Part = std::optional<std::vector<std::int32_t>>;
  std::vector<Part> parts_ = {std::nullopt};
  bool has_template_ = false;
};

}  // namespace tpinfer
