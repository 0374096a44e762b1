#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tpinfer {

/// What a tensor is for; its split over ranks follows from this alone (lib/shard/role_rules.cpp).
enum class Role : std::uint8_t {
  token_embedding,
  position_embedding,
  embedding_norm,
  attn_norm,
  mlp_norm,
  attn_post_norm,  ///< of what attention adds to the residual stream
  mlp_post_norm,
  final_norm,
  q_norm,  ///< one vector for each head's q
  k_norm,
  q_heads_norm,  ///< a vector for every head
  k_heads_norm,
  q_whole_norm,  ///< over all heads together
  k_whole_norm,
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

/// Scales what it is for by its weight, about 1 in a fresh model.
bool is_norm(Role role) noexcept;

/// The role as plans and result files name it: "q", "attn_out", "norm" (every norm), ...; a bias has "_bias" behind it.
std::string role_name(Role role, bool bias);

/// How several logical matrices lie in one stored tensor.
enum class Fusion : std::uint8_t {
  none,
  concat,     ///< all rows of the first part, then all of the second, ...
  per_group,  ///< the q rows of KV head 0's query heads, its k rows, its v rows, then those of KV head 1, ...
  stacked,    ///< a third axis in front: one matrix an expert
};

/// How a matrix lies in its tensor: [output features, input features], or the other way round.
enum class Storage : std::uint8_t { out_in, in_out };

}  // namespace tpinfer
