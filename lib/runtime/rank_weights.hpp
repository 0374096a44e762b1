#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.hpp"
#include "model/model_spec.hpp"
#include "shard/role_rules.hpp"

namespace tpinfer {

/// Where a stored tensor goes: rows from `row` of a matrix, or elements from `row` of a float32 vector.
struct WeightTarget {
  PackedMatrix* matrix = nullptr;
  DeviceBuffer* vector = nullptr;
  std::int64_t row = 0;
};

/// One MLP's part of this rank: of a dense layer, an expert or a shared expert.
struct MlpWeights {
  std::unique_ptr<PackedMatrix> gate_up;  ///< [2 channels, hidden] (gate first), or [channels, hidden] when not gated
  std::unique_ptr<PackedMatrix> down;     ///< [hidden, channels], row-parallel
};

/// What a norm scales and shifts by; both empty: there is no such norm.
struct NormVectors {
  DeviceBuffer weight, bias;
  std::size_t bytes() const noexcept { return weight.bytes() + bias.bytes(); }
};

/// One layer's part of this rank. Q, K, V are one product, gate and up another, however the checkpoint stores them.
struct LayerWeights {
  NormVectors attn_norm, mlp_norm;            ///< [hidden], of their inputs
  NormVectors attn_post_norm, mlp_post_norm;  ///< [hidden], of their results
  DeviceBuffer q_norm, k_norm;                ///< [head_dim], or of this rank's heads [heads, head_dim]
  std::unique_ptr<PackedMatrix> qkv;          ///< [(q_heads + 2 kv_heads) head_dim, hidden]
  DeviceBuffer qkv_bias;                      ///< [(q_heads + 2 kv_heads) head_dim]
  std::unique_ptr<PackedMatrix> attn_out;     ///< [hidden, q_heads head_dim], row-parallel
  DeviceBuffer attn_out_bias;                 ///< [hidden], whole on every rank
  MlpWeights mlp;                             ///< of a dense layer
  DeviceBuffer gate_up_bias;
  DeviceBuffer down_bias;  ///< [hidden], whole on every rank
  // of a mixture of experts
  std::unique_ptr<PackedMatrix>
      router;                       ///< [experts (+ 1: the shared expert's gate), hidden], float32, whole on every rank
  std::vector<MlpWeights> experts;  ///< the routed ones, then the shared one when there is one
};

/// This rank's weights in its own device memory, addressed by role and layer.
class RankWeights {
 public:
  /// Allocates everything for `share`; nothing is loaded yet. Row-parallel matrices have leaves where their partial
  /// sums are exact: in float64.
  RankWeights(Backend& backend, const ModelSpec& spec, const RankShare& share, DType compute,
              DType partials = DType::float64);

  const LayerWeights& layer(std::int64_t index) const { return layers_[static_cast<std::size_t>(index)]; }
  const PackedMatrix& embedding() const { return *embedding_; }
  const PackedMatrix& head() const { return head_ ? *head_ : *embedding_; }
  /// Learned positions [max_positions, hidden], whole on every rank; null for models without.
  const PackedMatrix* positions() const { return positions_.get(); }
  const NormVectors& embedding_norm() const { return embedding_norm_; }
  const NormVectors& final_norm() const { return final_norm_; }
  const DeviceBuffer& head_bias() const { return head_bias_; }  ///< [vocabulary of this rank]

  /// Where the stored tensor of this role goes; `expert` is the one of a stacked tensor's matrices, else the tensor's
  /// own.
  WeightTarget target(const ExpectedTensor& tensor, std::int64_t expert);
  /// Device bytes owned, padding included.
  std::uint64_t bytes() const;

 private:
  void make_attention(LayerWeights& layer);
  void make_mlp(LayerWeights& layer);
  void make_experts(LayerWeights& layer);
  MlpWeights make_mlp_weights(Range channels, std::int64_t width);
  DeviceBuffer make_vector(bool wanted, std::int64_t count);
  NormVectors make_norm(Role role);
  bool has_bias(std::initializer_list<Role> roles) const;
  WeightTarget layer_target(const ExpectedTensor& tensor, std::int64_t expert, LayerWeights& layer);

  Backend* backend_;
  ModelSpec const* spec_;
  RankShare share_;
  DType compute_;
  bool leaves_;
  std::unique_ptr<PackedMatrix> embedding_;
  std::unique_ptr<PackedMatrix> head_;  ///< null when tied
  std::unique_ptr<PackedMatrix> positions_;
  NormVectors embedding_norm_, final_norm_;
  DeviceBuffer head_bias_;
  std::vector<LayerWeights> layers_;
};

}  // namespace tpinfer
