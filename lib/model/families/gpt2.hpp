#pragma once

#include "model/families/gpt_bigcode.hpp"

namespace tpinfer::gpt2 {

inline constexpr std::string_view kArchitectures[] = {"GPT2LMHeadModel"};
inline constexpr FixedFlag kFixed[] = {{"scale_attn_by_inverse_layer_idx", false}, {"add_cross_attention", false}};

inline constexpr TensorRow kTensors[] = {
    {.name = "transformer.wte", .role = Role::token_embedding},
    {.name = "transformer.wpe", .role = Role::position_embedding},
    {.name = "transformer.h.{L}.ln_1", .role = Role::attn_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.attn.c_attn",
     .role = Role::qkv,
     .bias = Need::required,
     .fusion = Fusion::concat,
     .storage = Storage::in_out},
    {.name = "transformer.h.{L}.attn.c_proj",
     .role = Role::attn_out,
     .bias = Need::required,
     .storage = Storage::in_out},
    {.name = "transformer.h.{L}.ln_2", .role = Role::mlp_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.c_fc", .role = Role::mlp_up, .bias = Need::required, .storage = Storage::in_out},
    {.name = "transformer.h.{L}.mlp.c_proj",
     .role = Role::mlp_down,
     .bias = Need::required,
     .storage = Storage::in_out},
    {.name = "transformer.ln_f", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "gpt2",
    .architectures = kArchitectures,
    .keys = gpt_bigcode::kFamily.keys,
    .block = {.norm = Norm::layer,
              .gated = false,
              .position = Position::learned,
              .tied_by_default = true,
              .activation = "gelu_new",
              .ffn_factor = 4,
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = gpt_bigcode::kIgnore,
    .prefix = "transformer.",
    .fixed = kFixed,
};

}  // namespace tpinfer::gpt2
