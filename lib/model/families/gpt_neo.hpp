#pragma once

#include "model/families/gpt_bigcode.hpp"

namespace tpinfer::gpt_neo {

inline constexpr std::string_view kArchitectures[] = {"GPTNeoForCausalLM"};
inline constexpr std::string_view kIgnore[] = {
    "transformer.h.{L}.attn.attention.bias",
    "transformer.h.{L}.attn.attention.masked_bias",
};

inline constexpr TensorRow kTensors[] = {
    {.name = "transformer.wte", .role = Role::token_embedding},
    {.name = "transformer.wpe", .role = Role::position_embedding},
    {.name = "transformer.h.{L}.ln_1", .role = Role::attn_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.attn.attention.q_proj", .role = Role::q},
    {.name = "transformer.h.{L}.attn.attention.k_proj", .role = Role::k},
    {.name = "transformer.h.{L}.attn.attention.v_proj", .role = Role::v},
    {.name = "transformer.h.{L}.attn.attention.out_proj", .role = Role::attn_out, .bias = Need::required},
    {.name = "transformer.h.{L}.ln_2", .role = Role::mlp_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.c_fc", .role = Role::mlp_up, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.c_proj", .role = Role::mlp_down, .bias = Need::required},
    {.name = "transformer.ln_f", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "gpt_neo",
    .architectures = kArchitectures,
    .keys = {.layers = "num_layers|num_hidden_layers",
             .heads = "num_heads|num_attention_heads",
             .norm_epsilon = "layer_norm_epsilon",
             .activation = "activation_function",
             .window = "window_size"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .position = Position::learned,
              .window = Window::attention_types,
              .scaled_scores = false,
              .tied_by_default = true,
              .activation = "gelu_new",
              .ffn_factor = 4,
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = kIgnore,
    .prefix = "transformer.",
};

}  // namespace tpinfer::gpt_neo
