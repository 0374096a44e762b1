#pragma once

#include <functional>
#include <string>

#include "core/json.hpp"

namespace tpinfer {

/// Calls `visit(line, where)` for each line of a file, or of standard input for "-", that is not blank; `where` is
/// FILE:LINE. A byte order mark is left out. What `visit` writes for a line of standard input is sent off before the
/// next one is waited for. Error(input) for a file that can not be read.
void for_each_line(const std::string& file,
                   const std::function<void(const std::string& line, const std::string& where)>& visit);

/// One line of JSON on standard output; Error(output) when it can not be written.
void write_json_line(const Json& json);
void flush_output();

}  // namespace tpinfer
