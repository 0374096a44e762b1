#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/regex.hpp"

namespace tpinfer {

/// Words with the sign in front of them, single digits, marks with the line ends behind them, line ends.
inline constexpr std::string_view kWordRegex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The same with up to three digits together.
inline constexpr std::string_view kWordRegexThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Appends the matches of kWordRegex (most_digits 1) or kWordRegexThreeDigits (3) in `text` (valid UTF-8), in one pass.
void find_word_matches(std::string_view text, int most_digits, std::vector<Span>& matches);

}  // namespace tpinfer
