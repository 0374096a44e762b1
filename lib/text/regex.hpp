#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tpinfer {

/// Bytes [begin, end) of a text.
struct Span {
  std::size_t begin;
  std::size_t end;
};

/// A compiled Oniguruma pattern over UTF-8, in Oniguruma's own syntax as in Hugging Face's library. Immutable: several
/// threads may search with it at once. Character classes are those of the library's Unicode version (6.9.8: 14).
class Regex {
 public:
  /// `where` names the place of the pattern in complaints; Error(input) when it does not compile.
  Regex(const std::string& pattern, const std::string& where);

  /// Appends all matches from left to right, none overlapping; an empty match right behind another match is no match.
  /// `text` must be valid UTF-8. Error(input) when the pattern needs more memory than there is.
  void find_all(std::string_view text, std::vector<Span>& matches) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace tpinfer
