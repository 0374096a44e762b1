#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::gemma {

inline constexpr std::string_view kArchitectures[] = {"GemmaForCausalLM"};

inline constexpr FamilySpec kFamily{
    .name = "gemma",
    .architectures = kArchitectures,
    .keys = {.activation = "hidden_activation"},  // hidden_act says gelu and is not meant
    .block = {.norm = Norm::rms_plus_one,
              .tied_by_default = true,
              .scaled_embedding = true,
              .activation = "gelu_pytorch_tanh"},
    .tensors = llama::kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::gemma
