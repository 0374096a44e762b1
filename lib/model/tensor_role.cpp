#include "model/tensor_role.hpp"

namespace tpinfer {
namespace {

std::string_view weight_name(Role role) noexcept {
  switch (role) {
    case Role::token_embedding: return "token_embedding";
    case Role::position_embedding: return "position_embedding";
    case Role::embedding_norm:
    case Role::attn_norm:
    case Role::mlp_norm:
    case Role::attn_post_norm:
    case Role::mlp_post_norm:
    case Role::final_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::q_heads_norm:
    case Role::k_heads_norm:
    case Role::q_whole_norm:
    case Role::k_whole_norm: return "norm";
    case Role::q: return "q";
    case Role::k: return "k";
    case Role::v: return "v";
    case Role::qkv: return "qkv";
    case Role::attn_out: return "attn_out";
    case Role::mlp_gate: return "mlp_gate";
    case Role::mlp_up: return "mlp_up";
    case Role::mlp_gate_up: return "mlp_gate_up";
    case Role::mlp_down: return "mlp_down";
    case Role::router: return "router";
    case Role::expert_gate: return "expert_gate";
    case Role::expert_up: return "expert_up";
    case Role::expert_gate_up: return "expert_gate_up";
    case Role::expert_down: return "expert_down";
    case Role::shared_gate: return "shared_gate";
    case Role::shared_up: return "shared_up";
    case Role::shared_down: return "shared_down";
    case Role::shared_expert_gate: return "shared_expert_gate";
    case Role::lm_head: return "lm_head";
  }
  return "unknown";
}

}  // namespace

bool is_norm(Role role) noexcept { return weight_name(role) == "norm"; }

std::string role_name(Role role, bool bias) {
  std::string name(weight_name(role));
  return bias ? name + "_bias" : name;
}

}  // namespace tpinfer
