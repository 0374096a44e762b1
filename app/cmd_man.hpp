#pragma once

#include <vector>

#include "app/command_words.hpp"

namespace tpinfer {

/// `tpinfer man`: the manual page tpinfer(1), from the commands' own descriptions. -> exit code.
int run_man(const std::vector<CommandWords>& commands);

}  // namespace tpinfer
