#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::phi {

inline constexpr std::string_view kArchitectures[] = {"PhiForCausalLM"};
inline constexpr FixedFlag kFixed[] = {{"qk_layernorm", false}};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.dense", .role = Role::attn_out, .bias = Need::required},
    {.name = "model.layers.{L}.mlp.fc1", .role = Role::mlp_up, .bias = Need::required},
    {.name = "model.layers.{L}.mlp.fc2", .role = Role::mlp_down, .bias = Need::required},
    {.name = "model.final_layernorm", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied, .bias = Need::required},
};

inline constexpr FamilySpec kFamily{
    .name = "phi",
    .architectures = kArchitectures,
    .keys = {.norm_epsilon = "layer_norm_eps"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .rotary_share = 0.5,
              .parallel = true,
              .activation = "gelu_new",
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
    .fixed = kFixed,
};

}  // namespace tpinfer::phi
