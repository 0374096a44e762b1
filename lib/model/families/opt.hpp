#pragma once

#include "model/family_spec.hpp"

namespace tpinfer::opt {

inline constexpr std::string_view kArchitectures[] = {"OPTForCausalLM"};
// 350m: norms behind attention and MLP, and an embedding that is narrower than the layers
inline constexpr FixedFlag kFixed[] = {
    {"do_layer_norm_before", true}, {"_remove_final_layer_norm", false}, {"layer_norm_elementwise_affine", true}};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.decoder.embed_tokens", .role = Role::token_embedding},
    {.name = "model.decoder.embed_positions", .role = Role::position_embedding},
    {.name = "model.decoder.layers.{L}.self_attn_layer_norm", .role = Role::attn_norm, .bias = Need::required},
    {.name = "model.decoder.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::with_attention_bias},
    {.name = "model.decoder.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::with_attention_bias},
    {.name = "model.decoder.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::with_attention_bias},
    {.name = "model.decoder.layers.{L}.self_attn.out_proj", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "model.decoder.layers.{L}.final_layer_norm", .role = Role::mlp_norm, .bias = Need::required},
    {.name = "model.decoder.layers.{L}.fc1", .role = Role::mlp_up, .bias = Need::with_mlp_bias},
    {.name = "model.decoder.layers.{L}.fc2", .role = Role::mlp_down, .bias = Need::with_mlp_bias},
    {.name = "model.decoder.final_layer_norm", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "opt",
    .architectures = kArchitectures,
    .keys = {.ffn = "ffn_dim",
             .norm_epsilon = "layer_norm_eps",
             .activation = "activation_function",
             .attention_bias = "enable_bias",
             .mlp_bias = "enable_bias"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .position = Position::learned,
              .position_offset = 2,
              .tied_by_default = true,
              .biased_by_default = true,
              .activation = "relu",
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = {},
    .prefix = "model.",
    .fixed = kFixed,
};

}  // namespace tpinfer::opt
