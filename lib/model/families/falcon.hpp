#pragma once

#include "model/family_spec.hpp"

namespace tpinfer::falcon {

inline constexpr std::string_view kArchitectures[] = {"FalconForCausalLM", "RWForCausalLM"};
inline constexpr FixedFlag kFixed[] = {{"alibi", false}, {"apply_residual_connection_post_layernorm", false}};

inline constexpr TensorRow kTensors[] = {
    {.name = "transformer.word_embeddings", .role = Role::token_embedding},
    {.name = "transformer.h.{L}.input_layernorm",
     .role = Role::attn_norm,
     .bias = Need::required,
     .when = When::one_norm},
    {.name = "transformer.h.{L}.ln_attn", .role = Role::attn_norm, .bias = Need::required, .when = When::two_norms},
    {.name = "transformer.h.{L}.self_attention.query_key_value",
     .role = Role::qkv,
     .bias = Need::with_attention_bias,
     .fusion = Fusion::per_group},
    {.name = "transformer.h.{L}.self_attention.dense", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "transformer.h.{L}.post_attention_layernorm",
     .role = Role::mlp_norm,
     .bias = Need::required,
     .when = When::sequential},
    {.name = "transformer.h.{L}.ln_mlp", .role = Role::mlp_norm, .bias = Need::required, .when = When::two_norms},
    {.name = "transformer.h.{L}.mlp.dense_h_to_4h", .role = Role::mlp_up, .bias = Need::with_mlp_bias},
    {.name = "transformer.h.{L}.mlp.dense_4h_to_h", .role = Role::mlp_down, .bias = Need::with_mlp_bias},
    {.name = "transformer.ln_f", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "falcon",
    .architectures = kArchitectures,
    .keys = {.layers = "num_hidden_layers|n_layer",
             .heads = "num_attention_heads|n_head",
             .kv_heads = "num_kv_heads|n_head_kv",
             .ffn = "ffn_hidden_size",
             .norm_epsilon = "layer_norm_epsilon",
             .activation = "activation",
             .attention_bias = "bias",
             .mlp_bias = "bias",
             .parallel = "parallel_attn"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .tied_by_default = true,
              .parallel = true,
              .kv_heads = KvHeads::grouped_flag,
              .activation = "gelu",
              .ffn_factor = 4,
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = {},
    .fixed = kFixed,
};

}  // namespace tpinfer::falcon
