#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

/// The one way to start a kernel. Kernels are `__global__` functions in .cu files; they are compiled by nvcc, or for
/// the tests by the C++ compiler against an emulation of the CUDA runtime, which starts them on the CPU. Only this file
/// and tile_ops.cuh know of the two.
namespace tpinfer {

/// check() of cuda_handles.hpp for a launch: nvcc cannot compile that one, as it does not take fmt's checked formats.
void check_launch(cudaError_t status);

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;  ///< of dynamic shared memory
};

/// Starts `kernel` in the order of `stream`; nothing is started where the grid is empty. Error(communication) when the
/// kernel cannot start; failures while it runs are reported by later calls.
template <class... P, class... A>
void launch(void (*kernel)(P...), const LaunchShape& shape, cudaStream_t stream, A&&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel gets one argument for each parameter");
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
#ifdef TPINFER_CUDA_EMULATION
  check_launch(cuda_emulation::launch(kernel, shape.grid, shape.block, shape.shared_bytes, stream,
                                      std::tuple<std::decay_t<P>...>(std::forward<A>(args)...)));
#else
  constexpr std::size_t kAlwaysAllowed = 48 << 10;  // more shared memory must be asked for, for each kernel
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (shape.shared_bytes > kAlwaysAllowed)
    check_launch(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(shape.shared_bytes)));
  std::tuple<std::decay_t<P>...> values(std::forward<A>(args)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[sizeof...(P) + 1] = {const_cast<void*>(static_cast<const void*>(&value))...};
        check_launch(cudaLaunchKernel(function, shape.grid, shape.block, pointers, shape.shared_bytes, stream));
      },
      values);
#endif
}

}  // namespace tpinfer

/// In a kernel: `T* name`, the block's dynamic shared memory (LaunchShape::shared_bytes), aligned to 16 bytes.
#ifdef TPINFER_CUDA_EMULATION
#define TPINFER_SHARED_MEMORY(T, name) T* name = static_cast<T*>(::cuda_emulation::dynamic_shared_memory())
#else
#define TPINFER_SHARED_MEMORY(T, name)                           \
  extern __shared__ __align__(16) unsigned char tpinfer_bytes[]; \
  T* name = reinterpret_cast<T*>(tpinfer_bytes)
#endif
