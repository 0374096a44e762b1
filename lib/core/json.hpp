#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tpinfer {

/// JSON whose objects keep the order of the text.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  std::size_t max_bytes = std::size_t{1} << 30;
  int max_depth = 128;
};

/// Parses `text`. `where` (a file name, or FILE:LINE) begins every complaint. Refused with Error(input): invalid UTF-8
/// or JSON, a duplicate key, nesting deeper or text longer than the limits.
Json parse_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});

/// Reads and parses a file; a missing or unreadable file is an Error(input) with its name.
Json read_json_file(const std::string& path, const JsonLimits& limits = {});

/// The whole file as bytes; Error(input) with its name when it cannot be read or is longer than max_bytes. A pipe or
/// device, whose reading may wait for ever, is refused unless `may_wait`.
std::string read_text_file(const std::string& path, std::size_t max_bytes = std::size_t{1} << 30,
                           bool may_wait = false);

/// One line with its end: `json` without blanks; invalid UTF-8 becomes U+FFFD. U+0085, U+2028 and U+2029, which some
/// readers take for the end of a line, are escaped.
std::string json_line(const Json& json);

}  // namespace tpinfer
