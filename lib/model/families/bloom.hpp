#pragma once

#include "model/family_spec.hpp"

namespace tpinfer::bloom {

inline constexpr std::string_view kArchitectures[] = {"BloomForCausalLM", "BloomModel"};
inline constexpr FixedFlag kFixed[] = {{"apply_residual_connection_post_layernorm", false}};

inline constexpr TensorRow kTensors[] = {
    {.name = "transformer.word_embeddings", .role = Role::token_embedding},
    {.name = "transformer.word_embeddings_layernorm", .role = Role::embedding_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.input_layernorm", .role = Role::attn_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.self_attention.query_key_value",
     .role = Role::qkv,
     .bias = Need::required,
     .fusion = Fusion::per_group},
    {.name = "transformer.h.{L}.self_attention.dense", .role = Role::attn_out, .bias = Need::required},
    {.name = "transformer.h.{L}.post_attention_layernorm", .role = Role::mlp_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.dense_h_to_4h", .role = Role::mlp_up, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.dense_4h_to_h", .role = Role::mlp_down, .bias = Need::required},
    {.name = "transformer.ln_f", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "bloom",
    .architectures = kArchitectures,
    .keys = {.hidden = "n_embed|hidden_size",
             .layers = "n_layer|num_hidden_layers",
             .heads = "num_attention_heads|n_head",
             .max_positions = "seq_length",
             .norm_epsilon = "layer_norm_epsilon"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .position = Position::alibi,
              .tied_by_default = true,
              .activation = "gelu_pytorch_tanh",
              .ffn_factor = 4,
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = {},
    .prefix = "transformer.",
    .fixed = kFixed,
};

}  // namespace tpinfer::bloom
