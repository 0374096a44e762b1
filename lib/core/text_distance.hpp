#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tpinfer {

/// The candidate with the smallest edit distance to `word`, or "" when none is near (more than a third of the letters
/// differ).
std::string nearest_word(std::string_view word, std::span<const std::string> candidates);

}  // namespace tpinfer
