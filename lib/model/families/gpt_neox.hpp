#pragma once

#include "model/family_spec.hpp"

namespace tpinfer::gpt_neox {

inline constexpr std::string_view kArchitectures[] = {"GPTNeoXForCausalLM"};
inline constexpr std::string_view kIgnore[] = {
    "gpt_neox.layers.{L}.attention.bias",
    "gpt_neox.layers.{L}.attention.masked_bias",
    "gpt_neox.layers.{L}.attention.rotary_emb.inv_freq",
};

inline constexpr TensorRow kTensors[] = {
    {.name = "gpt_neox.embed_in", .role = Role::token_embedding},
    {.name = "gpt_neox.layers.{L}.input_layernorm", .role = Role::attn_norm, .bias = Need::required},
    {.name = "gpt_neox.layers.{L}.attention.query_key_value",
     .role = Role::qkv,
     .bias = Need::with_attention_bias,
     .fusion = Fusion::per_group},
    {.name = "gpt_neox.layers.{L}.attention.dense", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "gpt_neox.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm, .bias = Need::required},
    {.name = "gpt_neox.layers.{L}.mlp.dense_h_to_4h", .role = Role::mlp_up, .bias = Need::required},
    {.name = "gpt_neox.layers.{L}.mlp.dense_4h_to_h", .role = Role::mlp_down, .bias = Need::required},
    {.name = "gpt_neox.final_layer_norm", .role = Role::final_norm, .bias = Need::required},
    {.name = "embed_out", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "gpt_neox",
    .architectures = kArchitectures,
    .keys = {.norm_epsilon = "layer_norm_eps",
             .rope_theta = "rotary_emb_base|rope_theta",
             .rotary_share = "rotary_pct|partial_rotary_factor",
             .parallel = "use_parallel_residual"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .rotary_share = 0.25,
              .biased_by_default = true,
              .parallel = true,
              .activation = "gelu",
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = kIgnore,
};

}  // namespace tpinfer::gpt_neox
