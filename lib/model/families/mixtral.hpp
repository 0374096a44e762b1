#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::mixtral {

inline constexpr std::string_view kArchitectures[] = {"MixtralForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out},
    {.name = "model.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm},
    {.name = "model.layers.{L}.block_sparse_moe.gate", .role = Role::router, .layout = Layout::each_expert},
    {.name = "model.layers.{L}.block_sparse_moe.experts.{E}.w1",
     .role = Role::expert_gate,
     .layout = Layout::each_expert},
    {.name = "model.layers.{L}.block_sparse_moe.experts.{E}.w3",
     .role = Role::expert_up,
     .layout = Layout::each_expert},
    {.name = "model.layers.{L}.block_sparse_moe.experts.{E}.w2",
     .role = Role::expert_down,
     .layout = Layout::each_expert},
    {.name = "model.layers.{L}.mlp.gate", .role = Role::router, .layout = Layout::all_experts},
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
    .name = "mixtral",
    .architectures = kArchitectures,
    .keys = {.experts = "num_local_experts", .expert_ffn = "intermediate_size"},
    .block = {.window = Window::when_set, .moe = Moe::renormalised},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::mixtral
