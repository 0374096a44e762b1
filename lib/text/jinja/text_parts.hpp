#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/objects.hpp"

namespace tpinfer::jinja {

// Cutting and putting together texts as the methods of Python's str do. `most` cuts at most; negative: all.

std::vector<std::string_view> split(std::string_view text, std::string_view separator, Int most);
std::vector<std::string_view> split_from_end(std::string_view text, std::string_view separator, Int most);
std::vector<std::string_view> split_space(std::string_view text, Int most);
std::vector<std::string_view> split_space_from_end(std::string_view text, Int most);

Value text_list(const std::vector<std::string_view>& parts, Budget& budget);

std::string replace_text(std::string_view text, std::string_view old, std::string_view fresh, Int most, Budget& budget);
std::string format_braces(std::string_view format, const Arguments& arguments, Budget& budget);

/// isupper() and islower().
bool has_case(std::string_view text, bool upper);
// Of the kinds beyond ASCII that Python decides by tables that we do not have, the answer is refused.
bool is_digit_character(char32_t c);
bool is_alpha_character(char32_t c);
bool is_alnum_character(char32_t c);
bool is_space_character(char32_t c);

}  // namespace tpinfer::jinja
