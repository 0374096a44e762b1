#pragma once

#include <string_view>

namespace tpinfer {

/// `text` to standard output, all of it: Error(output) where that fails.
void print_all(std::string_view text);

}  // namespace tpinfer
