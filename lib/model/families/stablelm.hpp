#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::stablelm {

inline constexpr std::string_view kArchitectures[] = {"StableLmForCausalLM", "StableLMEpochForCausalLM"};
inline constexpr FixedFlag kFixed[] = {{"qk_layernorm", false}};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out},
    {.name = "model.layers.{L}.post_attention_layernorm",
     .role = Role::mlp_norm,
     .bias = Need::required,
     .when = When::sequential},
    {.name = "model.layers.{L}.mlp.gate_proj", .role = Role::mlp_gate},
    {.name = "model.layers.{L}.mlp.up_proj", .role = Role::mlp_up},
    {.name = "model.layers.{L}.mlp.down_proj", .role = Role::mlp_down},
    {.name = "model.norm", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "stablelm",
    .architectures = kArchitectures,
    .keys = {.norm_epsilon = "layer_norm_eps|norm_eps",
             .attention_bias = "use_qkv_bias",
             .rotary_share = "partial_rotary_factor|rope_pct",
             .parallel = "use_parallel_residual"},
    .block = {.norm = Norm::layer, .rotary_share = 0.25, .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
    .fixed = kFixed,
};

}  // namespace tpinfer::stablelm
