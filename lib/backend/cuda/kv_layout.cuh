#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/backend.hpp"

namespace tpinfer::cuda {

/// Positions of a tile of V.
inline constexpr int kValueTile = 16;

/// One layer of the KV cache: [block][KV head][K, V]. K is [block_size, head_dim]; V is cut into tiles of 16 positions,
/// each [head_dim, 16], so that both are read by 16 bytes along what is summed over.
template <class T>
struct KvView {
  T* layer;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t block_size;

  __host__ __device__ std::int64_t half() const { return static_cast<std::int64_t>(block_size) * head_dim; }
  /// Channel 0 of the key at `offset` of a block.
  __device__ T* key(std::int32_t block, int head, int offset) const {
    return layer + (static_cast<std::int64_t>(block) * kv_heads + head) * 2 * half() +
           static_cast<std::int64_t>(offset) * head_dim;
  }
  /// Channel 0 of the value at `offset`; channels stand kValueTile apart.
  __device__ T* value(std::int32_t block, int head, int offset) const {
    return layer + ((static_cast<std::int64_t>(block) * kv_heads + head) * 2 + 1) * half() +
           static_cast<std::int64_t>(offset / kValueTile) * kValueTile * head_dim + offset % kValueTile;
  }
};

template <class T>
KvView<T> kv_view(const KvSpec& spec, T* layer) {
  return {layer, static_cast<std::int32_t>(spec.kv_heads), static_cast<std::int32_t>(spec.head_dim),
          static_cast<std::int32_t>(spec.block_size)};
}

}  // namespace tpinfer::cuda
