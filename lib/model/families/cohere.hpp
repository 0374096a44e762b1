#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::cohere {

inline constexpr std::string_view kArchitectures[] = {"CohereForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.q_norm", .role = Role::q_heads_norm, .weight = Need::with_qk_norm},
    {.name = "model.layers.{L}.self_attn.k_norm", .role = Role::k_heads_norm, .weight = Need::with_qk_norm},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.mlp.gate_proj", .role = Role::mlp_gate},
    {.name = "model.layers.{L}.mlp.up_proj", .role = Role::mlp_up},
    {.name = "model.layers.{L}.mlp.down_proj", .role = Role::mlp_down},
    {.name = "model.norm", .role = Role::final_norm},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "cohere",
    .architectures = kArchitectures,
    .keys = {.norm_epsilon = "layer_norm_eps", .logit_scale = "logit_scale"},
    .block = {.norm = Norm::layer,
              .position = Position::rope_adjacent,
              .tied_by_default = true,
              .parallel = true,
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::cohere
