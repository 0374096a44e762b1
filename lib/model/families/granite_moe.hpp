#pragma once

#include "model/families/granite.hpp"

namespace tpinfer::granite_moe {

inline constexpr std::string_view kArchitectures[] = {"GraniteMoeForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm},
    {.name = "model.layers.{L}.block_sparse_moe.router.layer", .role = Role::router},
    {.name = "model.layers.{L}.block_sparse_moe.input_linear.weight",
     .role = Role::expert_gate_up,
     .fusion = Fusion::stacked},
    {.name = "model.layers.{L}.block_sparse_moe.output_linear.weight",
     .role = Role::expert_down,
     .fusion = Fusion::stacked},
    {.name = "model.norm", .role = Role::final_norm},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "granite_moe",
    .architectures = kArchitectures,
    .keys = {.experts = "num_local_experts",
             .expert_ffn = "intermediate_size",
             .embedding_scale = granite::kKeys.embedding_scale,
             .residual_scale = granite::kKeys.residual_scale,
             .attention_scale = granite::kKeys.attention_scale,
             .logit_divisor = granite::kKeys.logit_divisor},
    .block = {.moe = Moe::renormalised},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::granite_moe
