#include "model/expected_tensors.hpp"

#include <algorithm>

namespace tpinfer {
namespace {

bool needed(Need need, const ModelSpec& spec) {
  switch (need) {
    case Need::required:
    case Need::unless_tied: return true;
    case Need::never: return false;
    case Need::with_attention_bias: return spec.attention_bias;
    case Need::with_mlp_bias: return spec.mlp_bias;
    case Need::with_qk_norm: return spec.qk_norm;
  }
  return false;
}

bool holds(When when, const ModelSpec& spec, std::int64_t layer) {
  switch (when) {
    case When::always: return true;
    case When::dense_layer: return !spec.is_sparse(layer);
    case When::sparse_layer: return spec.is_sparse(layer);
    case When::multi_query: return spec.kv_heads == 1;
    case When::multi_head: return spec.kv_heads == spec.q_heads && spec.kv_heads != 1;
    case When::sequential: return !spec.parallel;
    case When::one_norm: return spec.norms_in_parallel == 1;
    case When::two_norms: return spec.norms_in_parallel == 2;
  }
  return false;
}

std::string filled(std::string_view pattern, std::string_view mark, std::int64_t number) {
  std::string name(pattern);
  if (const auto at = name.find(mark); at != std::string::npos) name.replace(at, mark.size(), std::to_string(number));
  return name;
}

class TensorList {
 public:
  explicit TensorList(const ModelSpec& spec) : spec_(spec) {}

  void add_row(const TensorRow& row) {
    const bool in_layers = row.name.find("{L}") != std::string_view::npos;
    for (std::int64_t layer = 0; layer < (in_layers ? spec_.layers : 1); ++layer) {
      if (!holds(row.when, spec_, layer)) continue;
      const std::string name = filled(row.name, "{L}", layer);
      const auto number = static_cast<std::int32_t>(in_layers ? layer : -1);
      if (row.name.find("{E}") == std::string_view::npos) {
        add(row, name, number, -1);
        continue;
      }
      for (std::int64_t e = 0; e < spec_.experts; ++e)
        add(row, filled(name, "{E}", e), number, static_cast<std::int32_t>(e));
    }
  }

  std::vector<ExpectedTensor> take() { return std::move(tensors_); }

 private:
  void add(const TensorRow& row, const std::string& name, std::int32_t layer, std::int32_t expert) {
    const bool stacked = row.fusion == Fusion::stacked;
    ExpectedTensor tensor{.name = stacked ? name : name + ".weight",
                          .role = row.role,
                          .fusion = row.fusion,
                          .storage = row.storage,
                          .layout = row.layout,
                          .layer = layer,
                          .expert = expert,
                          .shape = stored_shape(row.role, spec_),
                          .ignored = row.weight == Need::unless_tied && spec_.tied_head};
    if (row.storage == Storage::in_out) std::ranges::reverse(tensor.shape);
    if (stacked) tensor.shape.insert(tensor.shape.begin(), spec_.experts);
    if (needed(row.weight, spec_)) tensors_.push_back(tensor);
    if (!needed(row.bias, spec_)) return;
    tensor.name = name + ".bias";
    tensor.bias = true;
    tensor.ignored = false;
    tensor.storage = Storage::out_in;
    tensor.shape = {stored_shape(row.role, spec_).front()};
    tensors_.push_back(std::move(tensor));
  }

  const ModelSpec& spec_;
  std::vector<ExpectedTensor> tensors_;
};

}  // namespace

std::vector<std::int64_t> stored_shape(Role role, const ModelSpec& s) {
  const std::int64_t q = s.q_heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  switch (role) {
    case Role::token_embedding:
    case Role::lm_head: return {s.vocab, s.hidden};
    case Role::position_embedding: return {s.max_positions + s.family->block.position_offset, s.hidden};
    case Role::embedding_norm:
    case Role::attn_norm:
    case Role::mlp_norm:
    case Role::attn_post_norm:
    case Role::mlp_post_norm:
    case Role::final_norm: return {s.hidden};
    case Role::q_norm:
    case Role::k_norm: return {s.head_dim};
    case Role::q_heads_norm: return {s.q_heads, s.head_dim};
    case Role::k_heads_norm: return {s.kv_heads, s.head_dim};
    case Role::q_whole_norm: return {q};
    case Role::k_whole_norm: return {kv};
    case Role::q: return {q, s.hidden};
    case Role::k:
    case Role::v: return {kv, s.hidden};
    case Role::qkv: return {q + 2 * kv, s.hidden};
    case Role::attn_out: return {s.hidden, q};
    case Role::mlp_gate:
    case Role::mlp_up: return {s.ffn, s.hidden};
    case Role::mlp_gate_up: return {2 * s.ffn, s.hidden};
    case Role::mlp_down: return {s.hidden, s.ffn};
    case Role::router: return {s.experts, s.hidden};
    case Role::expert_gate:
    case Role::expert_up: return {s.expert_ffn, s.hidden};
    case Role::expert_gate_up: return {2 * s.expert_ffn, s.hidden};
    case Role::expert_down: return {s.hidden, s.expert_ffn};
    case Role::shared_gate:
    case Role::shared_up: return {s.shared_ffn, s.hidden};
    case Role::shared_down: return {s.hidden, s.shared_ffn};
    case Role::shared_expert_gate: return {1, s.hidden};
  }
  return {};
}

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec) {
  TensorList list(spec);
  for (const TensorRow& row : spec.family->tensors) list.add_row(row);
  return list.take();
}

}  // namespace tpinfer
