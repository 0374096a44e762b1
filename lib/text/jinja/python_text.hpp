#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tpinfer::jinja {

// Python's functions of str on valid UTF-8; lengths and places count characters.

bool is_python_space(char32_t c) noexcept;  // what strip(), split() and isspace() take for white space
bool is_printable(char32_t c) noexcept;     // what repr() shows as it is
bool is_cased(char32_t c) noexcept;
bool is_upper(char32_t c) noexcept;
bool is_lower(char32_t c) noexcept;
bool is_decimal(char32_t c) noexcept;

std::size_t character_count(std::string_view text) noexcept;
/// Where the character number `place` begins; the size of the text when there are fewer.
std::size_t byte_of_character(std::string_view text, std::size_t place) noexcept;
std::string reversed(std::string_view text);

/// The first place of `part` at or behind byte `from`, or npos; takes time linear in the text.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) noexcept;

std::string_view strip_begin(std::string_view text) noexcept;
std::string_view strip_end(std::string_view text) noexcept;
std::string_view strip(std::string_view text) noexcept;
// the same for the characters of `set`
std::string_view strip_begin(std::string_view text, std::string_view set) noexcept;
std::string_view strip_end(std::string_view text, std::string_view set) noexcept;

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);  // str.title(), not the filter

std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace tpinfer::jinja
