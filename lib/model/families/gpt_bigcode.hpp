#pragma once

#include "model/family_spec.hpp"

namespace tpinfer::gpt_bigcode {

inline constexpr std::string_view kArchitectures[] = {"GPTBigCodeForCausalLM", "GPTBigCodeLMHeadModel"};
inline constexpr std::string_view kIgnore[] = {"transformer.h.{L}.attn.bias", "transformer.h.{L}.attn.masked_bias"};

inline constexpr TensorRow kTensors[] = {
    {.name = "transformer.wte", .role = Role::token_embedding},
    {.name = "transformer.wpe", .role = Role::position_embedding},
    {.name = "transformer.h.{L}.ln_1", .role = Role::attn_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.attn.c_attn",
     .role = Role::qkv,
     .bias = Need::required,
     .fusion = Fusion::concat,
     .when = When::multi_query},
    {.name = "transformer.h.{L}.attn.c_attn",
     .role = Role::qkv,
     .bias = Need::required,
     .fusion = Fusion::per_group,
     .when = When::multi_head},
    {.name = "transformer.h.{L}.attn.c_proj", .role = Role::attn_out, .bias = Need::required},
    {.name = "transformer.h.{L}.ln_2", .role = Role::mlp_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.c_fc", .role = Role::mlp_up, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.c_proj", .role = Role::mlp_down, .bias = Need::required},
    {.name = "transformer.ln_f", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "gpt_bigcode",
    .architectures = kArchitectures,
    .keys = {.hidden = "n_embd",
             .layers = "n_layer",
             .heads = "n_head",
             .ffn = "n_inner",
             .max_positions = "n_positions",
             .norm_epsilon = "layer_norm_epsilon",
             .activation = "activation_function"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .position = Position::learned,
              .tied_by_default = true,
              .kv_heads = KvHeads::multi_query_flag,
              .activation = "gelu_pytorch_tanh",
              .ffn_factor = 4},
    .tensors = kTensors,
    .ignore = kIgnore,
    .prefix = "transformer.",
};

}  // namespace tpinfer::gpt_bigcode
