#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::granite {

inline constexpr std::string_view kArchitectures[] = {"GraniteForCausalLM"};

inline constexpr ConfigKeys kKeys{.embedding_scale = "embedding_multiplier",
                                  .residual_scale = "residual_multiplier",
                                  .attention_scale = "attention_multiplier",
                                  .logit_divisor = "logits_scaling"};

inline constexpr FamilySpec kFamily{
    .name = "granite",
    .architectures = kArchitectures,
    .keys = kKeys,
    .block = {},
    .tensors = llama::kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::granite
