#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::mistral {

inline constexpr std::string_view kArchitectures[] = {"MistralForCausalLM"};

inline constexpr FamilySpec kFamily{
    .name = "mistral",
    .architectures = kArchitectures,
    .keys = {},
    .block = {.window = Window::when_set},
    .tensors = llama::kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::mistral
