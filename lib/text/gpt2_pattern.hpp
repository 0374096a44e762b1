#pragma once

#include <string_view>
#include <vector>

#include "text/regex.hpp"

namespace tpinfer {

/// The pattern that find_gpt2_matches() stands for.
inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Appends the matches of kGpt2Regex in `text` (valid UTF-8), in one pass.
void find_gpt2_matches(std::string_view text, std::vector<Span>& matches);

}  // namespace tpinfer
