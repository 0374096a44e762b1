#pragma once

#include "model/families/llama.hpp"

namespace tpinfer::starcoder2 {

inline constexpr std::string_view kArchitectures[] = {"Starcoder2ForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "model.embed_tokens", .role = Role::token_embedding},
    {.name = "model.layers.{L}.input_layernorm", .role = Role::attn_norm, .bias = Need::required},
    {.name = "model.layers.{L}.self_attn.q_proj", .role = Role::q, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.k_proj", .role = Role::k, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.v_proj", .role = Role::v, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.self_attn.o_proj", .role = Role::attn_out, .bias = Need::with_attention_bias},
    {.name = "model.layers.{L}.post_attention_layernorm", .role = Role::mlp_norm, .bias = Need::required},
    {.name = "model.layers.{L}.mlp.c_fc", .role = Role::mlp_up, .bias = Need::with_mlp_bias},
    {.name = "model.layers.{L}.mlp.c_proj", .role = Role::mlp_down, .bias = Need::with_mlp_bias},
    {.name = "model.norm", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied},
};

inline constexpr FamilySpec kFamily{
    .name = "starcoder2",
    .architectures = kArchitectures,
    .keys = {.norm_epsilon = "norm_epsilon", .attention_bias = "use_bias", .mlp_bias = "use_bias"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .window = Window::when_set,
              .tied_by_default = true,
              .biased_by_default = true,
              .activation = "gelu_pytorch_tanh",
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = llama::kIgnore,
};

}  // namespace tpinfer::starcoder2
