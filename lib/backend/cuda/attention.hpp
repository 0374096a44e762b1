#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.hpp"

/// Causal attention over the paged cache.
///
/// Every kernel computes the same thing per query vector and block of kAttentionBlock absolute positions: the block's
/// maximum, its sum of exponentials (over eight groups of 32 positions, added in ascending order) and its weighted V,
/// one chain over ascending positions. Blocks are folded in ascending order. So neither the other rows, nor chunks, nor
/// whether blocks were computed side by side (attention over a long context) changes a bit.
namespace tpinfer::cuda {

/// Query vectors (rows times heads that share a KV head) of a short sequence.
inline constexpr int kFewVectors = 16;

struct AttentionCall {
  Tensor q;
  Tensor out;
  AttentionHeads heads;
  AttentionParams params;
  StepBatch batch;
  KvSpec spec;
  const void* layer = nullptr;  ///< of the cache
  int processors = 1;           ///< of the device
  float* partials = nullptr;    ///< wanted_partials() floats: blocks are computed side by side; null: one by one
};

/// Floats of `partials` that the call would gain from: where few sequences would leave most of the device idle. 0:
/// none.
std::int64_t wanted_partials(const AttentionCall& call);

void attention(const AttentionCall& call, cudaStream_t stream);

// What `attention` chooses from.
/// Tensor cores: 16-bit types and a head_dim that is a multiple of 8 and at most 256.
bool has_tiled_attention(const KvSpec& spec);
void attention_tiled(const AttentionCall& call, cudaStream_t stream);
/// Any type and head_dim.
void attention_general(const AttentionCall& call, cudaStream_t stream);

}  // namespace tpinfer::cuda
