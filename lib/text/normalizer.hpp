#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/charsmap.hpp"
#include "text/pattern.hpp"
#include "text/place.hpp"
#include "text/unicode.hpp"

namespace tpinfer {

struct Lowercase {};
struct StripAccents {};
struct Prepend {
  std::string content;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct StripSpace {
  bool left;
  bool right;
};

/// The "normalizer" of a tokenizer.json: steps that rewrite a text, in order.
class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(const Place& place) { read(place); }

  bool empty() const { return steps_.empty(); }
  std::string apply(std::string_view text) const;

 private:
  using Step = std::variant<NormalForm, Lowercase, StripAccents, Prepend, Replace, StripSpace, Charsmap>;
  void read(const Place& place);

  std::vector<Step> steps_;
};

}  // namespace tpinfer
