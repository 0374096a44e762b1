#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::olmoe {

inline constexpr std::string_view kArchitectures[] = {"OlmoeForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.q_norm", .role = Role::q_whole_norm},
    {.name = "model.layers.{L}.self_attn.k_norm", .role = Role::k_whole_norm},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm},
    {.name = "model.layers.{L}.mlp.gate", .role = Role::router},
    {.name = "model.layers.{L}.mlp.experts.{E}.gate_proj", .role = Role::expert_gate, .layout = Layout::each_expert},
    {.name = "model.layers.{L}.mlp.experts.{E}.up_proj", .role = Role::expert_up, .layout = Layout::each_expert},
    {.name = "model.layers.{L}.mlp.experts.{E}.down_proj", .role = Role::expert_down, .layout = Layout::each_expert},
    {.name = "model.layers.{L}.mlp.experts.gate_up_proj",
     .role = Role::expert_gate_up,
     .fusion = Fusion::stacked,
     .layout = Layout::all_experts},
    {.name = "model.layers.{L}.mlp.experts.down_proj",
     .role = Role::expert_down,
     .fusion = Fusion::stacked,
     .layout = Layout::all_experts},
    {.name = "model.norm", .role = Role::final_norm},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "olmoe",
    .architectures = kArchitectures,
    .keys = {.expert_ffn = "intermediate_size", .qkv_clip = "clip_qkv"},
    .block = {.moe = Moe::norm_topk_prob, .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::olmoe
