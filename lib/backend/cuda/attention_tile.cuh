#pragma once

#include "backend/cuda/attention_fold.cuh"

/// How the query vectors of a step are shared out to blocks of threads.
namespace tpinfer::cuda {

inline constexpr int kAttentionWarps = 8;
inline constexpr int kVectors = kFewVectors;       // query vectors of a warp
inline constexpr int kWeightStride = kBlock + 32;  // two rows lie on different banks

template <class T>
struct TiledWork : AttentionWork<T> {
  int q_heads;
  PartialView partials;  ///< data is null: blocks are folded here
};

/// Query vectors of one block of threads.
struct Tile {
  int sequence = -1;  ///< -1: nothing to do
  int first = 0;      ///< vector in the sequence: row * group + head of the group
  int vectors = 0;    ///< of the sequence
  int first_row = 0;  ///< of the sequence in the step
};

/// Elements of a row of queries in shared memory: two rows lie on different banks.
__host__ __device__ constexpr int query_stride(int head_dim) { return (head_dim + 63) / 64 * 64 + 32; }

template <int Tiles>
constexpr std::size_t attention_shared_bytes(int head_dim) {
  return static_cast<std::size_t>(Tiles * kVectors) *
         ((static_cast<std::size_t>(query_stride(head_dim)) + kWeightStride) * 2 +
          (kAttentionWarps / Tiles + kGroups) * sizeof(float));
}

/// Short sequences have one tile each, of up to 16 vectors; longer ones are cut into larger tiles, all sequences' tiles
/// in one row.
template <class T, int Tiles>
__device__ Tile find_tile(const TiledWork<T>& work) {
  Tile tile;
  int index = static_cast<int>(blockIdx.x);
  int sequence = Tiles == 1 ? index : 0;
  for (; sequence < work.sequences; ++sequence) {
    const int first_row = work.row_begin[sequence];
    const int vectors = (work.row_begin[sequence + 1] - first_row) * work.group;
    if constexpr (Tiles == 1) {
      if (vectors == 0 || vectors > kVectors) return tile;
      return {sequence, 0, vectors, first_row};
    }
    const int tiles = vectors > kVectors ? (vectors + Tiles * kVectors - 1) / (Tiles * kVectors) : 0;
    if (index < tiles) return {sequence, index * Tiles * kVectors, vectors, first_row};
    index -= tiles;
  }
  return tile;
}

}  // namespace tpinfer::cuda
