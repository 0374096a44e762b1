#include "runtime/rank_weights.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "model/expected_tensors.hpp"

namespace tpinfer {
namespace {

std::vector<std::int64_t> head_leaf_ends(const ModelSpec& spec, const RankShare& share) {
  std::vector<std::int64_t> ends =
      local_leaf_ends(query_head_leaf_cuts(spec.q_heads, spec.kv_heads), share.query_heads);
  for (std::int64_t& end : ends) end *= spec.head_dim;
  return ends;
}

WeightTarget norm_target(NormVectors& vectors, const ExpectedTensor& tensor) {
  return {nullptr, tensor.bias ? &vectors.bias : &vectors.weight, 0};
}

std::uint64_t bytes_of(const std::unique_ptr<PackedMatrix>& matrix) { return matrix ? matrix->bytes() : 0; }

}  // namespace

RankWeights::RankWeights(Backend& backend, const ModelSpec& spec, const RankShare& share, DType compute, DType partials)
    : backend_(&backend), spec_(&spec), share_(share), compute_(compute), leaves_(partials == DType::float64) {
  embedding_ = backend.create_matrix(
      {.rows = share.vocab.count(), .cols = spec.hidden, .dtype = compute, .lookup_only = !spec.tied_head});
  if (!spec.tied_head)
    head_ = backend.create_matrix({.rows = share.vocab.count(), .cols = spec.hidden, .dtype = compute});
  if (spec.position == Position::learned)
    positions_ = backend.create_matrix({.rows = stored_shape(Role::position_embedding, spec)[0],
                                        .cols = spec.hidden,
                                        .dtype = compute,
                                        .lookup_only = true});
  embedding_norm_ = make_norm(Role::embedding_norm);
  final_norm_ = make_norm(Role::final_norm);
  head_bias_ = make_vector(has_bias({Role::lm_head}), share.vocab.count());
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    LayerWeights& layer = layers_.emplace_back();
    make_attention(layer);
    layer.mlp_norm = make_norm(Role::mlp_norm);
    layer.mlp_post_norm = make_norm(Role::mlp_post_norm);
    if (spec.is_sparse(i))
      make_experts(layer);
    else
      make_mlp(layer);
  }
}

DeviceBuffer RankWeights::make_vector(bool wanted, std::int64_t count) {
  return wanted && count > 0 ? DeviceBuffer(*backend_, static_cast<std::size_t>(count) * sizeof(float))
                             : DeviceBuffer();
}

NormVectors RankWeights::make_norm(Role role) {
  return {make_vector(spec_->has(role), spec_->hidden), make_vector(spec_->has(role, true), spec_->hidden)};
}

bool RankWeights::has_bias(std::initializer_list<Role> roles) const {
  return std::ranges::any_of(roles, [this](Role role) { return spec_->has(role, true); });
}

void RankWeights::make_attention(LayerWeights& layer) {
  const std::int64_t q_rows = share_.query_heads.count() * spec_->head_dim;
  const std::int64_t rows = q_rows + 2 * share_.kv_heads.count() * spec_->head_dim;
  layer.attn_norm = make_norm(Role::attn_norm);
  layer.attn_post_norm = make_norm(Role::attn_post_norm);
  const bool each = spec_->has(Role::q_norm);
  const bool all = spec_->has(Role::q_heads_norm) || spec_->has(Role::q_whole_norm);
  layer.q_norm = make_vector(each || all, each ? spec_->head_dim : q_rows);
  layer.k_norm = make_vector(each || all, each ? spec_->head_dim : (rows - q_rows) / 2);
  layer.qkv = backend_->create_matrix({.rows = rows, .cols = spec_->hidden, .dtype = compute_});
  layer.qkv_bias = make_vector(has_bias({Role::q, Role::k, Role::v, Role::qkv}), rows);
  layer.attn_out =
      backend_->create_matrix({.rows = spec_->hidden,
                               .cols = q_rows,
                               .dtype = compute_,
                               .leaf_ends = leaves_ ? head_leaf_ends(*spec_, share_) : std::vector<std::int64_t>{}});
  layer.attn_out_bias = make_vector(has_bias({Role::attn_out}), spec_->hidden);
}

MlpWeights RankWeights::make_mlp_weights(Range channels, std::int64_t width) {
  const std::int64_t rows = (spec_->family->block.gated ? 2 : 1) * channels.count();
  std::vector<std::int64_t> leaf_ends;
  if (leaves_) leaf_ends = local_leaf_ends(channel_leaf_cuts(width), channels);
  return {.gate_up = backend_->create_matrix({.rows = rows, .cols = spec_->hidden, .dtype = compute_}),
          .down = backend_->create_matrix(
              {.rows = spec_->hidden, .cols = channels.count(), .dtype = compute_, .leaf_ends = std::move(leaf_ends)})};
}

void RankWeights::make_mlp(LayerWeights& layer) {
  layer.mlp = make_mlp_weights(share_.channels, spec_->ffn);
  layer.gate_up_bias =
      make_vector(has_bias({Role::mlp_gate, Role::mlp_up, Role::mlp_gate_up}), layer.mlp.gate_up->spec().rows);
  layer.down_bias = make_vector(has_bias({Role::mlp_down}), spec_->hidden);
}

void RankWeights::make_experts(LayerWeights& layer) {
  const bool shared = spec_->shared_ffn > 0;
  // routing is computed from float32 inputs and weights, alike on every rank
  layer.router = backend_->create_matrix(
      {.rows = spec_->experts + (shared ? 1 : 0), .cols = spec_->hidden, .dtype = DType::float32});
  for (std::int64_t e = 0; e < spec_->experts; ++e)
    layer.experts.push_back(make_mlp_weights(share_.expert_channels, spec_->expert_ffn));
  if (shared) layer.experts.push_back(make_mlp_weights(share_.shared_channels, spec_->shared_ffn));
}

WeightTarget RankWeights::layer_target(const ExpectedTensor& tensor, std::int64_t expert, LayerWeights& layer) {
  const std::int64_t q_rows = share_.query_heads.count() * spec_->head_dim;
  const std::int64_t kv_rows = share_.kv_heads.count() * spec_->head_dim;
  const auto fused = [&](std::unique_ptr<PackedMatrix>& matrix, DeviceBuffer& bias, std::int64_t row) -> WeightTarget {
    return tensor.bias ? WeightTarget{nullptr, &bias, row} : WeightTarget{matrix.get(), nullptr, row};
  };
  const auto norm = [&](NormVectors& vectors) { return norm_target(vectors, tensor); };
  // up lies behind gate
  const auto up_row = [&](Range channels) { return spec_->family->block.gated ? channels.count() : 0; };
  switch (tensor.role) {
    case Role::attn_norm: return norm(layer.attn_norm);
    case Role::mlp_norm: return norm(layer.mlp_norm);
    case Role::attn_post_norm: return norm(layer.attn_post_norm);
    case Role::mlp_post_norm: return norm(layer.mlp_post_norm);
    case Role::q_norm:
    case Role::q_heads_norm:
    case Role::q_whole_norm: return {nullptr, &layer.q_norm, 0};
    case Role::k_norm:
    case Role::k_heads_norm:
    case Role::k_whole_norm: return {nullptr, &layer.k_norm, 0};
    case Role::q:
    case Role::qkv: return fused(layer.qkv, layer.qkv_bias, 0);
    case Role::k: return fused(layer.qkv, layer.qkv_bias, q_rows);
    case Role::v: return fused(layer.qkv, layer.qkv_bias, q_rows + kv_rows);
    case Role::attn_out: return fused(layer.attn_out, layer.attn_out_bias, 0);
    case Role::mlp_gate:
    case Role::mlp_gate_up: return fused(layer.mlp.gate_up, layer.gate_up_bias, 0);
    case Role::mlp_up: return fused(layer.mlp.gate_up, layer.gate_up_bias, up_row(share_.channels));
    case Role::mlp_down: return fused(layer.mlp.down, layer.down_bias, 0);
    case Role::router: return {layer.router.get(), nullptr, 0};
    case Role::shared_expert_gate: return {layer.router.get(), nullptr, spec_->experts};
    case Role::expert_gate:
    case Role::expert_gate_up: return {layer.experts[static_cast<std::size_t>(expert)].gate_up.get(), nullptr, 0};
    case Role::expert_up:
      return {layer.experts[static_cast<std::size_t>(expert)].gate_up.get(), nullptr, up_row(share_.expert_channels)};
    case Role::expert_down: return {layer.experts[static_cast<std::size_t>(expert)].down.get(), nullptr, 0};
    case Role::shared_gate: return {layer.experts.back().gate_up.get(), nullptr, 0};
    case Role::shared_up: return {layer.experts.back().gate_up.get(), nullptr, up_row(share_.shared_channels)};
    case Role::shared_down: return {layer.experts.back().down.get(), nullptr, 0};
    default: throw Error(ExitCode::internal, "no place for the tensor " + tensor.name);
  }
}

WeightTarget RankWeights::target(const ExpectedTensor& tensor, std::int64_t expert) {
  if (tensor.layer >= 0) return layer_target(tensor, expert, layers_[static_cast<std::size_t>(tensor.layer)]);
  switch (tensor.role) {
    case Role::token_embedding: return {embedding_.get(), nullptr, 0};
    case Role::position_embedding: return {positions_.get(), nullptr, 0};
    case Role::lm_head:
      return tensor.bias ? WeightTarget{nullptr, &head_bias_, 0} : WeightTarget{head_.get(), nullptr, 0};
    case Role::embedding_norm: return norm_target(embedding_norm_, tensor);
    case Role::final_norm: return norm_target(final_norm_, tensor);
    default: throw Error(ExitCode::internal, "no place for the tensor " + tensor.name);
  }
}

std::uint64_t RankWeights::bytes() const {
  std::uint64_t total = bytes_of(embedding_) + bytes_of(head_) + bytes_of(positions_) + embedding_norm_.bytes() +
                        final_norm_.bytes() + head_bias_.bytes();
  for (const LayerWeights& layer : layers_) {
    total += bytes_of(layer.qkv) + bytes_of(layer.attn_out) + bytes_of(layer.mlp.gate_up) + bytes_of(layer.mlp.down) +
             bytes_of(layer.router);
    for (const MlpWeights& expert : layer.experts) total += bytes_of(expert.gate_up) + bytes_of(expert.down);
    for (const auto* norm : {&layer.attn_norm, &layer.mlp_norm, &layer.attn_post_norm, &layer.mlp_post_norm})
      total += norm->bytes();
    for (const auto* vector :
         {&layer.q_norm, &layer.k_norm, &layer.qkv_bias, &layer.attn_out_bias, &layer.gate_up_bias, &layer.down_bias})
      total += vector->bytes();
  }
  return total;
}

}  // namespace tpinfer
