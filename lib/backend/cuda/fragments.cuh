#pragma once

#include <cstring>

#include "backend/cuda/tile_ops.cuh"
#include "core/exact_sum.hpp"

/// What the matrix kernels share: how a warp holds its part of a product.
///
/// A product of two row-major matrices is summed over their columns in steps of 32. Of one step lane l holds columns
/// 8 t .. 8 t + 7 (t = l % 4) of the rows g and g + 8 of the left matrix (g = l / 4) and of row g of the right one, so
/// that every load is 16 bytes. Matrix instructions take columns {8 t + 0..3} of all lanes, then {8 t + 4..7}: which
/// ones they take together is free as long as both sides agree, and it is the same in every kernel of this backend.
namespace tpinfer::cuda {

inline constexpr int kStepColumns = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x % 32U); }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x / 32U); }

/// Eight adjacent elements of a row.
template <class T>
struct Chunk {
  static constexpr int kSize = 8;
  static constexpr int kPacks = kSize / Pack<T>::kSize;
  Pack<T> packs[kPacks];
};

template <class T>
__device__ inline Chunk<T> zero_chunk() {
  Chunk<T> chunk;
  memset(&chunk, 0, sizeof chunk);
  return chunk;
}

/// From a multiple of 16 bytes.
template <class T>
__device__ inline Chunk<T> load_chunk(const T* from) {
  Chunk<T> chunk;
#pragma unroll
  for (int i = 0; i < Chunk<T>::kPacks; ++i) chunk.packs[i] = load_pack(from + i * Pack<T>::kSize);
  return chunk;
}

/// The same for weights, which are read once in a kernel.
template <class T>
__device__ inline Chunk<T> load_chunk_streamed(const T* from) {
  Chunk<T> chunk;
#pragma unroll
  for (int i = 0; i < Chunk<T>::kPacks; ++i) chunk.packs[i] = load_streamed(from + i * Pack<T>::kSize);
  return chunk;
}

/// Element by element from any address; zeros from `count` on.
template <class T>
__device__ inline Chunk<T> load_chunk_ragged(const T* from, int count) {
  Chunk<T> chunk = zero_chunk<T>();
#pragma unroll
  for (int i = 0; i < Chunk<T>::kSize; ++i)
    if (i < count) chunk.packs[i / Pack<T>::kSize].at[i % Pack<T>::kSize] = from[i];
  return chunk;
}

/// Floats of shared memory that each warp needs for multiply(): the tensor cores have no float32.
template <class T>
inline constexpr int kWarpScratch = sizeof(T) == 4 ? 24 * 36 : 0;

/// sums [16, 8] += left [16, 32] right [8, 32]^T. Lane l: sums at (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1);
/// `low` and `high` are its chunks of the left rows g and g + 8.
template <class T>
__device__ inline void multiply(float (&sums)[4], const Chunk<T>& low, const Chunk<T>& high, const Chunk<T>& right,
                                float* scratch) {
  static_cast<void>(scratch);
  std::uint32_t a0[4];
  std::uint32_t a1[4];
  std::uint32_t b[4];
  memcpy(a0, &low, sizeof a0);
  memcpy(a1, &high, sizeof a1);
  memcpy(b, &right, sizeof b);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t left_pairs[4] = {a0[2 * half], a1[2 * half], a0[2 * half + 1], a1[2 * half + 1]};
    const std::uint32_t right_pairs[2] = {b[2 * half], b[2 * half + 1]};
    mma_16x8x16<T>(sums, left_pairs, right_pairs);
  }
}

/// float32: the rows meet in shared memory, and each lane adds up its four sums column by column.
template <>
__device__ inline void multiply<float>(float (&sums)[4], const Chunk<float>& low, const Chunk<float>& high,
                                       const Chunk<float>& right, float* scratch) {
  constexpr int kStride = 36;  // rows of 32 with a gap against bank conflicts
  const int g = lane_index() / 4;
  const int t = lane_index() % 4;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    store_pack(scratch + g * kStride + 8 * t + 4 * i, low.packs[i]);
    store_pack(scratch + (g + 8) * kStride + 8 * t + 4 * i, high.packs[i]);
    store_pack(scratch + (g + 16) * kStride + 8 * t + 4 * i, right.packs[i]);
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kStepColumns; k += 4) {
    const Pack<float> left[2] = {load_pack(scratch + g * kStride + k), load_pack(scratch + (g + 8) * kStride + k)};
    const Pack<float> columns[2] = {load_pack(scratch + (16 + 2 * t) * kStride + k),
                                    load_pack(scratch + (17 + 2 * t) * kStride + k)};
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int part = 0; part < 4; ++part) sums[part] = fmaf(left[part / 2].at[i], columns[part % 2].at[i], sums[part]);
  }
}

/// round_to_grid of core/exact_sum.hpp.
__device__ inline double on_grid(float value) { return (static_cast<double>(value) + kGridMagic) - kGridMagic; }

}  // namespace tpinfer::cuda
