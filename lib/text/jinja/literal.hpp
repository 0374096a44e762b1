#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.hpp"

namespace tpinfer::jinja {

// Literals of templates, and texts that are read as numbers. Failures are Faults.

/// The inside of a quoted literal with its escapes resolved.
std::string unescape(std::string_view quoted);

/// Where the whole number that begins at `at` with a digit ends: 12, 1_000, 0x1f, 0b1, 0o7.
std::size_t integer_end(std::string_view source, std::size_t at);

/// Python's int(text, base), base 0 taking prefixes; nothing for what is no number.
std::optional<Int> parse_int(std::string_view text, int base);

/// Python's float(text); nothing for what is no number.
std::optional<double> parse_float(std::string_view text);

}  // namespace tpinfer::jinja
