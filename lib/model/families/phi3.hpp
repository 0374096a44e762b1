#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::phi3 {

inline constexpr std::string_view kArchitectures[] = {"Phi3ForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm},
    {.name = "model.layers.{L}.self_attn.qkv_proj", .role = Role::qkv, .fusion = Fusion::concat},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out},
    {.name = "model.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm},
    {.name = "model.layers.{L}.mlp.gate_up_proj", .role = Role::mlp_gate_up, .fusion = Fusion::concat},
    {.name = "model.layers.{L}.mlp.down_proj", .role = Role::mlp_down},
    {.name = "model.norm", .role = Role::final_norm},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "phi3",
    .architectures = kArchitectures,
    .keys = {},
    .block = {.window = Window::when_set, .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::phi3
