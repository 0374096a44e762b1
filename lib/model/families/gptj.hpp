#pragma once

#include "model/families/gpt_bigcode.hpp"

namespace tpinfer::gptj {

inline constexpr std::string_view kArchitectures[] = {"GPTJForCausalLM"};

inline constexpr TensorRow kTensors[] = {
    {.name = "transformer.wte", .role = Role::token_embedding},
    {.name = "transformer.h.{L}.ln_1", .role = Role::attn_norm, .bias = Need::required},
    {.name = "transformer.h.{L}.attn.q_proj", .role = Role::q},
    {.name = "transformer.h.{L}.attn.k_proj", .role = Role::k},
    {.name = "transformer.h.{L}.attn.v_proj", .role = Role::v},
    {.name = "transformer.h.{L}.attn.out_proj", .role = Role::attn_out},
    {.name = "transformer.h.{L}.mlp.fc_in", .role = Role::mlp_up, .bias = Need::required},
    {.name = "transformer.h.{L}.mlp.fc_out", .role = Role::mlp_down, .bias = Need::required},
    {.name = "transformer.ln_f", .role = Role::final_norm, .bias = Need::required},
    {.name = "lm_head", .role = Role::lm_head, .weight = Need::unless_tied, .bias = Need::required},
};

inline constexpr FamilySpec kFamily{
    .name = "gptj",
    .architectures = kArchitectures,
    .keys = {.hidden = "n_embd",
             .layers = "n_layer",
             .heads = "n_head",
             .ffn = "n_inner",
             .max_positions = "n_positions",
             .norm_epsilon = "layer_norm_epsilon",
             .activation = "activation_function",
             .rotary_dim = "rotary_dim"},
    .block = {.norm = Norm::layer,
              .gated = false,
              .position = Position::rope_adjacent,
              .parallel = true,
              .activation = "gelu_new",
              .ffn_factor = 4,
              .norm_epsilon = 1e-5},
    .tensors = kTensors,
    .ignore = gpt_bigcode::kIgnore,
};

}  // namespace tpinfer::gptj
