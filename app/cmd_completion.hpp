#pragma once

#include <string>
#include <vector>

#include "app/command_words.hpp"

namespace tpinfer {

/// `tpinfer completion bash|zsh|fish`: what these shells need to complete commands, options, their words and the keys
/// of --set. -> exit code.
int run_completion(const std::vector<CommandWords>& commands, const std::string& shell);

}  // namespace tpinfer
