#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/place.hpp"
#include "text/regex.hpp"

namespace tpinfer {

/// Each character of the class is a match of its own.
using CharClass = bool (*)(char32_t) noexcept;

/// The pattern of GPT-2, by hand: it is in most byte-level tokenizers and covers all of a text.
struct Gpt2Pattern {};

/// The patterns of word_pattern.hpp, by hand.
struct SignedWordPattern {
  int most_digits;
};

/// \w+|[^\w\s]+
struct WordPattern {};

/// What to look for: a literal string that is not empty, a regular expression, a class of characters, ...
using Pattern = std::variant<std::string, Regex, CharClass, Gpt2Pattern, SignedWordPattern, WordPattern>;

/// Reads {"String": ...} or {"Regex": ...}.
Pattern read_pattern(const Place& place);

/// Replaces `matches` by all matches in `text` (valid UTF-8), left to right, none overlapping.
void find_matches(const Pattern& pattern, std::string_view text, std::vector<Span>& matches);

/// `text` with each match replaced by `content`.
std::string replace_matches(const Pattern& pattern, std::string_view text, std::string_view content);

/// What becomes of the matches when a text is split by them. For "-" on "a--b": removed a, b; isolated a, -, -, b;
/// merged_with_previous a-, -, b; merged_with_next a, -, -b; contiguous a, --, b.
enum class SplitBehavior : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior read_split_behavior(const Place& place);

/// Splits texts by a pattern; reuses its memory from text to text.
class Splitter {
 public:
  /// The parts of `text`, in order, some of them perhaps empty. With `invert` what does not match counts as the match.
  /// The result is good until the next call.
  const std::vector<Span>& split(std::string_view text, const Pattern& pattern, SplitBehavior behavior, bool invert);

 private:
  struct Stretch {
    Span span;
    bool matched;
  };
  void merge_stretches(SplitBehavior behavior);

  std::vector<Span> matches_;
  std::vector<Stretch> stretches_;
  std::vector<Span> parts_;
};

}  // namespace tpinfer
