#include "backend/cuda/attention.hpp"

#include "core/exact_sum.hpp"

namespace tpinfer::cuda {

std::int64_t wanted_partials(const AttentionCall& call) {
  if (call.heads.kv_heads == 0 || !has_tiled_attention(call.spec)) return 0;
  const std::int64_t group = call.heads.q_heads / call.heads.kv_heads;
  const std::int64_t blocks = (call.batch.max_context + kAttentionBlock - 1) / kAttentionBlock;
  const bool many = call.batch.sequences * call.heads.kv_heads >= 2 * call.processors;
  if (many || blocks < 2 || call.batch.max_rows * group > kFewVectors) return 0;
  return call.batch.rows * call.heads.q_heads * blocks * (2 + call.heads.head_dim);
}

void attention(const AttentionCall& call, cudaStream_t stream) {
  if (call.batch.rows == 0 || call.heads.kv_heads == 0) return;
  has_tiled_attention(call.spec) ? attention_tiled(call, stream) : attention_general(call, stream);
}

}  // namespace tpinfer::cuda
