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

/// One layer's part of this rank. Q, K, V are one product, gate and up another, however the checkpoint stores them.
struct LayerWeights {
  DeviceBuffer attn_norm, attn_norm_bias, mlp_norm, mlp_norm_bias;  ///< [hidden]
  std::unique_ptr<PackedMatrix> qkv;                                ///< [(q_heads + 2 kv_heads) head_dim, hidden]
  DeviceBuffer qkv_bias;                                            ///< [(q_heads + 2 kv_heads) head_dim]
  std::unique_ptr<PackedMatrix> attn_out;                           ///< [hidden, q_heads head_dim], row-parallel
  DeviceBuffer attn_out_bias;                                       ///< [hidden], whole on every rank
  std::unique_ptr<PackedMatrix> gate_up;  ///< [2 channels, hidden] (gate first), or [channels, hidden] when not gated
  DeviceBuffer gate_up_bias;
  std::unique_ptr<PackedMatrix> down;  ///< [hidden, channels], row-parallel
  DeviceBuffer down_bias;              ///< [hidden], whole on every rank
};

/// This rank's weights in its own device memory, addressed by role and layer.
class RankWeights {
 public:
  /// Allocates everything for `share`; nothing is loaded yet.
  RankWeights(Backend& backend, const ModelSpec& spec, const RankShare& share, DType compute);

  const LayerWeights& layer(std::int64_t index) const { return layers_[static_cast<std::size_t>(index)]; }
  const PackedMatrix& embedding() const { return *embedding_; }
  const PackedMatrix& head() const { return head_ ? *head_ : *embedding_; }
  const DeviceBuffer& final_norm() const { return final_norm_; }
  const DeviceBuffer& final_norm_bias() const { return final_norm_bias_; }

  /// Where the stored tensor of this role goes.
  WeightTarget target(const ExpectedTensor& tensor);
  /// Device bytes owned, padding included.
  std::uint64_t bytes() const;

 private:
  WeightTarget layer_target(const ExpectedTensor& tensor, LayerWeights& layer);

  Backend* backend_;
  ModelSpec const* spec_;
  RankShare share_;
  std::unique_ptr<PackedMatrix> embedding_;
  std::unique_ptr<PackedMatrix> head_;  ///< null when tied
  DeviceBuffer final_norm_, final_norm_bias_;
  std::vector<LayerWeights> layers_;
};

}  // namespace tpinfer
