#pragma once

#include "model/family_spec.hpp"

namespace tpinfer::llama {

inline constexpr std::string_view kArchitectures[] = {"LlamaForCausalLM", "LLaMAForCausalLM", "YiForCausalLM"};
inline constexpr std::string_view kIgnore[] = {
    "model.layers.{L}.self_attn.rotary_emb.inv_freq",
    "model.layers.{L}.self_attn.rotary_emb.cos_cached",
    "model.layers.{L}.self_attn.rotary_emb.sin_cached",
    "model.rotary_emb.inv_freq",
};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm},
    {.name = "model.layers.{L}.mlp.gate_proj", .role = Role::mlp_gate, .bias = Need::with_mlp_bias},
    {.name = "model.layers.{L}.mlp.up_proj", .role = Role::mlp_up, .bias = Need::with_mlp_bias},
    {.name = "model.layers.{L}.mlp.down_proj", .role = Role::mlp_down, .bias = Need::with_mlp_bias},
    {.name = "model.norm", .role = Role::final_norm},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "llama",
    .architectures = kArchitectures,
    .keys = {},
    .block = {},
    .tensors = kTensors,
    .ignore = kIgnore,
};

}  // namespace tpinfer::llama
