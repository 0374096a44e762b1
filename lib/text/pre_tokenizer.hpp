#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "text/pattern.hpp"
#include "text/pieces.hpp"
#include "text/place.hpp"

namespace tpinfer {

/// Splits each piece by a pattern.
struct SplitStep {
  Pattern pattern;
  SplitBehavior behavior;
  bool invert;
};

/// Splits by the pattern of GPT-2 where use_regex is set, then writes each byte as a character (byte_alphabet.hpp).
struct ByteLevelStep {
  bool add_prefix_space;
  bool use_regex;
};

enum class PrependScheme : std::uint8_t { always, first, never };

/// Writes spaces as `replacement`, with one more in front as `scheme` says, and splits before each where asked.
struct MetaspaceStep {
  std::string replacement;
  PrependScheme scheme;
  bool split;
};

PrependScheme read_prepend_scheme(const Place& metaspace);

/// The "pre_tokenizer" of a tokenizer.json: steps that cut the pieces of a text further, in order.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(const Place& place) { read(place); }

  void apply(Pieces& pieces) const;

 private:
  using Step = std::variant<SplitStep, ByteLevelStep, MetaspaceStep>;
  void read(const Place& place);

  std::vector<Step> steps_;
};

}  // namespace tpinfer
