#include "text/pattern.hpp"

#include <algorithm>

#include "text/gpt2_pattern.hpp"
#include "text/unicode.hpp"
#include "text/word_pattern.hpp"

namespace tpinfer {
namespace {

struct Finder {
  std::string_view text;
  std::vector<Span>& matches;

  void operator()(const std::string& literal) const {
    for (std::size_t at = text.find(literal); at != std::string_view::npos; at = text.find(literal, at)) {
      matches.push_back({at, at + literal.size()});
      at += literal.size();
    }
  }
  void operator()(const Regex& regex) const { regex.find_all(text, matches); }
  void operator()(CharClass in_class) const {
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint next = code_point_at(text, at);
      if (in_class(next.value)) matches.push_back({at, at + next.size});
      at += next.size;
    }
  }
  void operator()(Gpt2Pattern) const { find_gpt2_matches(text, matches); }
  void operator()(SignedWordPattern words) const { find_word_matches(text, words.most_digits, matches); }
  void operator()(WordPattern) const {
    enum Kind { space, word, other };
    Kind previous = space;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint next = code_point_at(text, at);
      const Kind kind = is_word(next.value) ? word : is_space(next.value) ? space : other;
      if (kind != space && kind == previous) {
        matches.back().end = at + next.size;
      } else if (kind != space) {
        matches.push_back({at, at + next.size});
      }
      previous = kind;
      at += next.size;
    }
  }
};

}  // namespace

Pattern read_pattern(const Place& place) {
  if (const auto literal = place.find("String")) {
    if (literal->string().empty()) literal->fail("an empty string can not be looked for");
    return literal->string();
  }
  const auto regex = place.find("Regex");
  if (!regex) place.fail("a pattern must be {{\"String\": ...}} or {{\"Regex\": ...}}");
  if (regex->string() == kGpt2Regex) return Gpt2Pattern{};
  if (regex->string() == kWordRegex) return SignedWordPattern{1};
  if (regex->string() == kWordRegexThreeDigits) return SignedWordPattern{3};
  return Regex(regex->string(), regex->name());
}

void find_matches(const Pattern& pattern, std::string_view text, std::vector<Span>& matches) {
  matches.clear();
  if (!text.empty()) std::visit(Finder{text, matches}, pattern);
}

std::string replace_matches(const Pattern& pattern, std::string_view text, std::string_view content) {
  std::vector<Span> matches;
  find_matches(pattern, text, matches);
  std::string out;
  out.reserve(text.size() + matches.size() * content.size());
  std::size_t from = 0;
  for (const Span& match : matches) {
    out.append(text.substr(from, match.begin - from)).append(content);
    from = match.end;
  }
  return out.append(text.substr(from));
}

SplitBehavior read_split_behavior(const Place& place) {
  static constexpr std::string_view kNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                "Contiguous"};
  const auto found = std::find(std::begin(kNames), std::end(kNames), place.string());
  if (found == std::end(kNames))
    place.fail(
        "the behavior \"{}\" is not known (known are Removed, Isolated, MergedWithPrevious, MergedWithNext, "
        "Contiguous)",
        place.string());
  return static_cast<SplitBehavior>(found - std::begin(kNames));
}

const std::vector<Span>& Splitter::split(std::string_view text, const Pattern& pattern, SplitBehavior behavior,
                                         bool invert) {
  find_matches(pattern, text, matches_);
  stretches_.clear();
  std::size_t from = 0;
  for (const Span& match : matches_) {
    if (match.begin > from) stretches_.push_back({{from, match.begin}, invert});
    stretches_.push_back({match, !invert});
    from = match.end;
  }
  if (from < text.size()) stretches_.push_back({{from, text.size()}, invert});
  merge_stretches(behavior);
  return parts_;
}

void Splitter::merge_stretches(SplitBehavior behavior) {
  parts_.clear();
  if (behavior == SplitBehavior::merged_with_next) {
    bool previous = false;
    for (auto stretch = stretches_.rbegin(); stretch != stretches_.rend(); ++stretch) {
      if (stretch->matched && !previous && !parts_.empty()) {
        parts_.back().begin = stretch->span.begin;
      } else {
        parts_.push_back(stretch->span);
      }
      previous = stretch->matched;
    }
    std::reverse(parts_.begin(), parts_.end());
    return;
  }
  bool previous = false;
  for (const Stretch& stretch : stretches_) {
    const bool merges = (behavior == SplitBehavior::contiguous && stretch.matched == previous) ||
                        (behavior == SplitBehavior::merged_with_previous && stretch.matched && !previous);
    if (behavior == SplitBehavior::removed && stretch.matched) continue;
    if (merges && !parts_.empty()) {
      parts_.back().end = stretch.span.end;
    } else {
      parts_.push_back(stretch.span);
    }
    previous = stretch.matched;
  }
}

}  // namespace tpinfer
