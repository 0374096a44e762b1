#include "runtime/rank_weights.hpp"

#include "core/error.hpp"

namespace tpinfer {
namespace {

// Local sizes that the fused products are laid out by.
struct LocalSizes {
  std::int64_t q_rows, kv_rows, channels;
};

LocalSizes local_sizes(const ModelSpec& spec, const RankShare& share) {
  return {share.query_heads.count() * spec.head_dim, share.kv_heads.count() * spec.head_dim, share.channels.count()};
}

std::vector<std::int64_t> head_leaf_ends(const ModelSpec& spec, const RankShare& share) {
  std::vector<std::int64_t> ends =
      local_leaf_ends(query_head_leaf_cuts(spec.q_heads, spec.kv_heads), share.query_heads);
  for (std::int64_t& end : ends) end *= spec.head_dim;
  return ends;
}

bool has_bias(const ModelSpec& spec, Role role) {
  for (const ExpectedTensor& tensor : spec.tensors)
    if (tensor.role == role && tensor.bias) return true;
  return false;
}

bool any_bias(const ModelSpec& spec, std::initializer_list<Role> roles) {
  for (const Role role : roles)
    if (has_bias(spec, role)) return true;
  return false;
}

}  // namespace

RankWeights::RankWeights(Backend& backend, const ModelSpec& spec, const RankShare& share, DType compute)
    : backend_(&backend), spec_(&spec), share_(share) {
  const LocalSizes local = local_sizes(spec, share);
  const auto vector = [&](bool wanted, std::int64_t count) {
    return wanted && count > 0 ? DeviceBuffer(backend, static_cast<std::size_t>(count) * sizeof(float))
                               : DeviceBuffer();
  };
  const bool qkv_bias = any_bias(spec, {Role::q, Role::k, Role::v, Role::qkv});
  const bool gate_up_bias = any_bias(spec, {Role::mlp_gate, Role::mlp_up, Role::mlp_gate_up});
  const bool norm_bias = has_bias(spec, Role::attn_norm);
  const std::int64_t up_rows = (spec.family->block.gated ? 2 : 1) * local.channels;
  const std::vector<std::int64_t> channel_leaves = local_leaf_ends(channel_leaf_cuts(spec.ffn), share.channels);
  embedding_ = backend.create_matrix({.rows = share.vocab.count(),
                                      .cols = spec.hidden,
                                      .dtype = compute,
                                      .leaf_ends = {},
                                      .lookup_only = !spec.tied_head});
  if (!spec.tied_head)
    head_ =
        backend.create_matrix({.rows = share.vocab.count(), .cols = spec.hidden, .dtype = compute, .leaf_ends = {}});
  final_norm_ = vector(true, spec.hidden);
  final_norm_bias_ = vector(norm_bias, spec.hidden);
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    LayerWeights& layer = layers_.emplace_back();
    layer.attn_norm = vector(true, spec.hidden);
    layer.attn_norm_bias = vector(norm_bias, spec.hidden);
    layer.mlp_norm = vector(true, spec.hidden);
    layer.mlp_norm_bias = vector(norm_bias, spec.hidden);
    layer.qkv = backend.create_matrix(
        {.rows = local.q_rows + 2 * local.kv_rows, .cols = spec.hidden, .dtype = compute, .leaf_ends = {}});
    layer.qkv_bias = vector(qkv_bias, local.q_rows + 2 * local.kv_rows);
    layer.attn_out = backend.create_matrix(
        {.rows = spec.hidden, .cols = local.q_rows, .dtype = compute, .leaf_ends = head_leaf_ends(spec, share)});
    layer.attn_out_bias = vector(has_bias(spec, Role::attn_out), spec.hidden);
    layer.gate_up = backend.create_matrix({.rows = up_rows, .cols = spec.hidden, .dtype = compute, .leaf_ends = {}});
    layer.gate_up_bias = vector(gate_up_bias, up_rows);
    layer.down = backend.create_matrix(
        {.rows = spec.hidden, .cols = local.channels, .dtype = compute, .leaf_ends = channel_leaves});
    layer.down_bias = vector(has_bias(spec, Role::mlp_down), spec.hidden);
  }
}

WeightTarget RankWeights::layer_target(const ExpectedTensor& tensor, LayerWeights& layer) {
  const LocalSizes local = local_sizes(*spec_, share_);
  const auto fused = [&](std::unique_ptr<PackedMatrix>& matrix, DeviceBuffer& bias, std::int64_t row) -> WeightTarget {
    return tensor.bias ? WeightTarget{nullptr, &bias, row} : WeightTarget{matrix.get(), nullptr, row};
  };
  switch (tensor.role) {
    case Role::attn_norm:
      return {nullptr, tensor.bias ? &layer.attn_norm_bias : &layer.attn_norm, 0};
    case Role::mlp_norm:
      return {nullptr, tensor.bias ? &layer.mlp_norm_bias : &layer.mlp_norm, 0};
    case Role::q:
    case Role::qkv:
      return fused(layer.qkv, layer.qkv_bias, 0);
    case Role::k:
      return fused(layer.qkv, layer.qkv_bias, local.q_rows);
    case Role::v:
      return fused(layer.qkv, layer.qkv_bias, local.q_rows + local.kv_rows);
    case Role::attn_out:
      return fused(layer.attn_out, layer.attn_out_bias, 0);
    case Role::mlp_gate:
    case Role::mlp_gate_up:
      return fused(layer.gate_up, layer.gate_up_bias, 0);
    case Role::mlp_up:
      return fused(layer.gate_up, layer.gate_up_bias, spec_->family->block.gated ? local.channels : 0);
    case Role::mlp_down:
      return fused(layer.down, layer.down_bias, 0);
    default:
      throw Error(ExitCode::internal, "no place for the tensor " + tensor.name);
  }
}

WeightTarget RankWeights::target(const ExpectedTensor& tensor) {
  if (tensor.layer >= 0) return layer_target(tensor, layers_[static_cast<std::size_t>(tensor.layer)]);
  switch (tensor.role) {
    case Role::token_embedding:
      return {embedding_.get(), nullptr, 0};
    case Role::lm_head:
      return {head_.get(), nullptr, 0};
    case Role::final_norm:
      return {nullptr, tensor.bias ? &final_norm_bias_ : &final_norm_, 0};
    default:
      throw Error(ExitCode::internal, "no place for the tensor " + tensor.name);
  }
}

std::uint64_t RankWeights::bytes() const {
  std::uint64_t total =
      embedding_->bytes() + (head_ ? head_->bytes() : 0) + final_norm_.bytes() + final_norm_bias_.bytes();
  for (const LayerWeights& layer : layers_) {
    for (const auto* matrix : {&layer.qkv, &layer.attn_out, &layer.gate_up, &layer.down}) total += (*matrix)->bytes();
    for (const auto* vector : {&layer.attn_norm, &layer.attn_norm_bias, &layer.mlp_norm, &layer.mlp_norm_bias,
                               &layer.qkv_bias, &layer.attn_out_bias, &layer.gate_up_bias, &layer.down_bias})
      total += vector->bytes();
  }
  return total;
}

}  // namespace tpinfer
