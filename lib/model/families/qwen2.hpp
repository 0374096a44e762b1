#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::qwen2 {

inline constexpr std::string_view kArchitectures[] = {"Qwen2ForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out},
    {.name = "model.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm},
    {.name = "model.layers.{L}.mlp.gate_proj", .role = Role::mlp_gate},
    {.name = "model.layers.{L}.mlp.up_proj", .role = Role::mlp_up},
    {.name = "model.layers.{L}.mlp.down_proj", .role = Role::mlp_down},
    {.name = "model.norm", .role = Role::final_norm},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "qwen2",
    .architectures = kArchitectures,
    .keys = {},
    .block = {.window = Window::when_used},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::qwen2
