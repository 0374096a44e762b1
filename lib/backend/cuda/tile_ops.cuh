#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

/// Matrix instructions, asynchronous copies and wide loads of kernels, each as the instruction of sm_80 and newer and
/// in a portable definition for the emulation. Nothing else may hold PTX.
namespace tpinfer::cuda {

// Conversions, rounding to nearest even.
__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__device__ inline T from_float(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else
    return __float2bfloat16_rn(value);
}

/// 16 bytes of elements of type T, at a multiple of 16 bytes.
template <class T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / static_cast<int>(sizeof(T));
  T at[kSize];
};

#ifdef TPINFER_CUDA_EMULATION

template <class T>
__device__ inline Pack<T> load_pack(const T* from) {
  cuda_emulation::require_aligned(from, 16);
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <class T>
__device__ inline Pack<T> load_streamed(const T* from) {
  return load_pack(from);
}
template <class T>
__device__ inline void store_pack(T* to, const Pack<T>& pack) {
  cuda_emulation::require_aligned(to, 16);
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

template <class T>
__device__ inline void mma_16x8x16(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  T left[8];
  T right[4];
  __builtin_memcpy(left, a, sizeof left);
  __builtin_memcpy(right, b, sizeof right);
  cuda_emulation::MatrixPart part;
  for (int i = 0; i < 8; ++i) part.a[i] = to_float(left[i]);
  for (int i = 0; i < 4; ++i) part.b[i] = to_float(right[i]);
  for (int i = 0; i < 4; ++i) part.sums[i] = sums[i];
  cuda_emulation::multiply_in_warp(part);
  for (int i = 0; i < 4; ++i) sums[i] = part.sums[i];
}

__device__ inline void load_tiles(std::uint32_t (&tiles)[4], const void* row) {
  cuda_emulation::require_aligned(row, 16);
  const void* const* rows = cuda_emulation::exchange_in_warp(row);
  const int lane = cuda_emulation::lane();
  for (int i = 0; i < 4; ++i)
    __builtin_memcpy(&tiles[i], static_cast<const char*>(rows[i * 8 + lane / 4]) + lane % 4 * 4, 4);
  __syncwarp();
}

__device__ inline void load_tiles_transposed(std::uint32_t (&tiles)[4], const void* row) {
  cuda_emulation::require_aligned(row, 16);
  const void* const* rows = cuda_emulation::exchange_in_warp(row);
  const int lane = cuda_emulation::lane();
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half)
      __builtin_memcpy(reinterpret_cast<char*>(&tiles[i]) + half * 2,
                       static_cast<const char*>(rows[i * 8 + lane % 4 * 2 + half]) + lane / 4 * 2, 2);
  __syncwarp();
}

__device__ inline void copy_async(void* to_shared, const void* from, bool valid = true) {
  cuda_emulation::require_aligned(to_shared, 16);
  cuda_emulation::require_aligned(from, 16);
  cuda_emulation::copy_async(to_shared, valid ? from : nullptr, 16);
}
__device__ inline void copy_async_commit() { cuda_emulation::copy_async_commit(); }
template <int kPending>
__device__ inline void copy_async_wait() {
  cuda_emulation::copy_async_wait(kPending);
}

#else

/// 16 bytes from a multiple of 16 bytes.
template <class T>
__device__ inline Pack<T> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}

/// The same for what is read once in the kernel and never written meanwhile (weights): leaves the first-level cache
/// alone.
template <class T>
__device__ inline Pack<T> load_streamed(const T* from) {
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(from));
  return reinterpret_cast<const Pack<T>&>(bits);
}

template <class T>
__device__ inline void store_pack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

/// One warp: sums [16, 8] += a [16, 16] b [16, 8] in float32, T = __half or __nv_bfloat16 in pairs (lower column or row
/// in the lower half). Of lane l, with g = l / 4 and t = l % 4 * 2:
///   sums: (g, t) (g, t + 1) (g + 8, t) (g + 8, t + 1)
///   a:    (g, t..) (g + 8, t..) (g, t + 8..) (g + 8, t + 8..), pairs along the columns
///   b:    (t.., g) (t + 8.., g), pairs along the rows
template <class T>
__device__ inline void mma_16x8x16(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<T, __half>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// One warp: four tiles of 8 x 8 two-byte elements from shared memory. Lane l names row l % 8 of tile l / 8 (16 bytes,
/// at a multiple of 16) and gets of each tile the pair (l / 4, l % 4 * 2 ..): an `a` of mma_16x8x16 when the tiles are
/// upper left, lower left, upper right, lower right.
__device__ inline void load_tiles(std::uint32_t (&tiles)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(address)
               : "memory");
}

/// The same of each tile's transpose: elements (l % 4 * 2, l / 4) and (l % 4 * 2 + 1, l / 4).
__device__ inline void load_tiles_transposed(std::uint32_t (&tiles)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(address)
               : "memory");
}

/// Copies 16 bytes (zeros where not `valid`; `from` must still be an address that may be read) to shared memory beside
/// the thread; done after the copy_async_wait that follows its copy_async_commit, and then seen by this thread only.
__device__ inline void copy_async(void* to_shared, const void* from, bool valid = true) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

/// Ends a group of this thread's copies.
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most kPending of this thread's groups, the newest, are under way.
template <int kPending>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

#endif

}  // namespace tpinfer::cuda
