#pragma once

// What kernels see: built-in variables, barriers, shuffles, atomics, and the start of a kernel.
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>

#include "cuda_runtime_api.h"

#define __shared__ static  // blocks run one after the other, so that one storage for all of them is each block's own
#define __launch_bounds__(...)
#define __restrict__ __restrict
#ifndef __noinline__
#define __noinline__ __attribute__((noinline))
#endif

namespace cuda_emulation {

/// What a running kernel may look at; set by the executor before each switch to a thread.
struct Running {
  uint3 thread{};
  uint3 block{};
  dim3 block_size;
  dim3 grid_size;
  int lane = 0;
  void* dynamic_shared = nullptr;
};
extern Running* running;  ///< one kernel at a time: device work runs under one lock

enum class WarpWork { sync, shuffle, ballot, exchange, multiply };
/// Waits for the lanes of `mask`. shuffle: each lane gives `value` and gets that of lane `from`. ballot: gets the bits
/// of the lanes whose value is not 0.
std::uint64_t warp_collective(WarpWork work, unsigned mask, std::uint64_t value, int from);
void block_barrier();
/// Adds up `value` over the block's threads, as a barrier.
int block_count(int value);
/// All lanes give `bytes` (at most 64) bytes; the place of the 32 gifts, one behind the other.
const void* exchange_bytes(const void* gift, std::size_t bytes);
/// One lane's part of a matrix instruction m16n8k16, as PTX divides them, in float32.
struct MatrixPart {
  float a[8], b[4], sums[4];
};
/// All lanes: sums += a b, each sum over the 16 columns in ascending order.
void multiply_in_warp(MatrixPart& part);
[[noreturn]] void kernel_fault(const char* what, const void* address);

inline void require_aligned(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) kernel_fault("an address that is not aligned", address);
}
template <class T>
const T* exchange_in_warp(const T& own) {
  static_assert(sizeof(T) <= 64 && std::is_trivially_copyable_v<T>);
  return static_cast<const T*>(exchange_bytes(&own, sizeof(T)));
}
inline int lane() { return running->lane; }
inline void* dynamic_shared_memory() { return running->dynamic_shared; }

/// Asynchronous copies happen as late as they may: at the wait for their group. `from` null: zeros.
void copy_async(void* to, const void* from, std::size_t bytes);
void copy_async_commit();
void copy_async_wait(int pending_groups);

/// Faults where the bytes of a kernel's argument hold a pointer to host memory that the device cannot read.
void check_argument(const void* bytes, std::size_t size, int index);
cudaError_t launch_kernel(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                          std::function<void()> body);

template <class... P, class Arguments>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   Arguments arguments) {
  int index = 0;
  const auto look = [&](auto& value) {
    __builtin_clear_padding(&value);  // what was left there may look like a pointer
    check_argument(&value, sizeof value, index++);
  };
  std::apply([&](auto&... value) { (look(value), ...); }, arguments);
  return launch_kernel(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, stream,
                       [kernel, arguments] { std::apply(kernel, arguments); });
}

template <class T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T shuffle(unsigned mask, T value, int from) {
  const std::uint64_t bits = warp_collective(WarpWork::shuffle, mask, to_bits(value), from);
  T result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace cuda_emulation

#define threadIdx (::cuda_emulation::running->thread)
#define blockIdx (::cuda_emulation::running->block)
#define blockDim (::cuda_emulation::running->block_size)
#define gridDim (::cuda_emulation::running->grid_size)
inline constexpr int warpSize = 32;

inline void __syncthreads() { cuda_emulation::block_barrier(); }
inline int __syncthreads_count(int value) { return cuda_emulation::block_count(value != 0); }
inline int __syncthreads_or(int value) { return cuda_emulation::block_count(value != 0) != 0; }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
  cuda_emulation::warp_collective(cuda_emulation::WarpWork::sync, mask, 0, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int lane = cuda_emulation::lane();
  return cuda_emulation::shuffle(mask, value, lane / width * width + from % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const int lane = cuda_emulation::lane();
  const int from = lane ^ bits;
  return cuda_emulation::shuffle(mask, value, from / width > lane / width ? lane : from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = cuda_emulation::lane();
  const int from = lane + static_cast<int>(delta);
  return cuda_emulation::shuffle(mask, value, from / width == lane / width ? from : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = cuda_emulation::lane();
  const int from = lane - static_cast<int>(delta);
  return cuda_emulation::shuffle(mask, value, from >= lane / width * width ? from : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(
      cuda_emulation::warp_collective(cuda_emulation::WarpWork::ballot, mask, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

template <class T, class V>
T atomicAdd(T* to, V value) {
  const T old = *to;
  *to = static_cast<T>(old + static_cast<T>(value));
  return old;
}
template <class T, class V>
T atomicSub(T* to, V value) {
  const T old = *to;
  *to = static_cast<T>(old - static_cast<T>(value));
  return old;
}
template <class T, class V>
T atomicMax(T* to, V value) {
  const T old = *to;
  if (static_cast<T>(value) > old) *to = static_cast<T>(value);
  return old;
}
template <class T, class V>
T atomicMin(T* to, V value) {
  const T old = *to;
  if (static_cast<T>(value) < old) *to = static_cast<T>(value);
  return old;
}
template <class T, class V>
T atomicOr(T* to, V value) {
  const T old = *to;
  *to = old | static_cast<T>(value);
  return old;
}
template <class T, class V>
T atomicExch(T* to, V value) {
  const T old = *to;
  *to = static_cast<T>(value);
  return old;
}
template <class T, class U, class V>
T atomicCAS(T* to, U expected, V value) {
  const T old = *to;
  if (old == static_cast<T>(expected)) *to = static_cast<T>(value);
  return old;
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
