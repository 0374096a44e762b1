#pragma once

#include "model/family_spec.hpp"

namespace tpinfer::mpt {

inline constexpr std::string_view kArchitectures[] = {"MptForCausalLM", "MPTForCausalLM"};
inline constexpr FixedFlag kFixed[] = {
    {"no_bias", true}, {"attn_config.alibi", true}, {"attn_config.qk_ln", false}, {"attn_config.prefix_lm", false}};

inline constexpr TensorRow kTensors[] = {
    {.name = "transformer.wte", .role = Role::token_embedding},
    {.name = "transformer.blocks.{L}.norm_1", .role = Role::attn_norm},
    {.name = "transformer.blocks.{L}.attn.Wqkv", .role = Role::qkv, .fusion = Fusion::concat},
    {.name = "transformer.blocks.{L}.attn.out_proj", .role = Role::attn_out},
    {.name = "transformer.blocks.{L}.norm_2", .role = Role::mlp_norm},
    {.name = "transformer.blocks.{L}.ffn.up_proj", .role = Role::mlp_up},
    {.name = "transformer.blocks.{L}.ffn.down_proj", .role = Role::mlp_down},
    {.name = "transformer.norm_f", .role = Role::final_norm},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "mpt",
    .architectures = kArchitectures,
    .keys = {.hidden = "d_model|hidden_size",
             .layers = "n_layers|num_hidden_layers",
             .heads = "n_heads|num_attention_heads",
             .ffn_factor = "expansion_ratio",
             .max_positions = "max_seq_len",
             .norm_epsilon = "layer_norm_epsilon",
             .activation = "",
             .qkv_clip = "attn_config.clip_qkv",
             .attention_scale = "attn_config.softmax_scale"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .position = Position::alibi,
              .tied_by_default = true,
              .activation = "gelu",
              .ffn_factor = 4,
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = {},
    .fixed = kFixed,
};

}  // namespace tpinfer::mpt
