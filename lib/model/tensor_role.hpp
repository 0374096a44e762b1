#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tpinfer {

/// What a tensor is for; its split over ranks follows from this alone (lib/shard/role_rules.cpp).
enum class Role : std::uint8_t {
  token_embedding,
  position_embedding,
  attn_norm,
  mlp_norm,
  final_norm,
  q,
  k,
  v,
  qkv,
  attn_out,
  mlp_gate,
  mlp_up,
  mlp_gate_up,
  mlp_down,
  router,
  expert_gate,
  expert_up,
  expert_gate_up,
  expert_down,
  shared_gate,
  shared_up,
  shared_down,
  shared_expert_gate,
  lm_head,
};

/// The role as plans and result files name it: "q", "attn_out", "norm" (every norm), ...; a bias has "_bias" behind it.
std::string role_name(Role role, bool bias);

/// How several logical matrices lie in one stored tensor.
enum class Fusion : std::uint8_t {
  none,
  concat,    ///< all rows of the first part, then all of the second, ...
  per_head,  ///< q, k and v rows of head 0, then of head 1, ...
  stacked,   ///< a third axis in front: one matrix an expert
};

}  // namespace tpinfer
