#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer {

/// Kernel sets of the CPU backend, weakest first. Results are bitwise repeatable within one set.
enum class KernelSet : int { scalar = 0, avx2 = 1, avx512 = 2, avx512_bf16 = 3 };

std::string_view kernel_set_name(KernelSet set) noexcept;  ///< "scalar", "avx2", "avx512", "avx512-bf16"
/// True when this processor can run the set.
bool has_kernel_set(KernelSet set) noexcept;
/// The fastest set that this processor has: the last one, but avx512 on Intel's processors, whose bfloat16 dot products
/// run at half the rate of their float32 products.
KernelSet best_kernel_set() noexcept;
/// `forced` (the value of TPINFER_ISA; empty: none) or the best one; Error(usage) when the name is unknown or the
/// processor lacks it.
KernelSet choose_kernel_set(std::string_view forced);

/// CPU backend with `threads` threads (the caller's is one of them). The backend is also the ParallelFor of its rank.
class CpuBackend : public Backend {
 public:
  virtual ParallelFor& parallel() noexcept = 0;
};
std::unique_ptr<CpuBackend> make_cpu_backend(KernelSet set, int threads);

/// Backend::activation_dtype of the CPU backend, for plans made without a device: bfloat16 for bfloat16, otherwise
/// float32.
DType cpu_activation_dtype(DType compute) noexcept;

/// CUDA: in a build without it (no_cuda.cpp) cuda_available() is false, with the reason in cuda_reason(), and
/// make_gpu_backend and make_cuda_backend throw Error(usage).
bool cuda_available();
std::string cuda_reason();
/// Of a GPU, all programs together; bytes.
struct GpuMemory {
  std::uint64_t total = 0, free = 0;
};

/// A GPU as backend of one rank; all calls from the thread that made it.
class GpuBackend : public Backend {
 public:
  /// The host's threads of this rank.
  virtual ParallelFor& parallel() noexcept = 0;
  /// The compute stream, a cudaStream_t.
  virtual void* queue() const noexcept = 0;
  virtual GpuMemory memory() const = 0;
};
struct GpuOptions {
  int device = 0;          ///< as CUDA numbers those that this process sees
  int threads = 1;         ///< of the host, that read weights
  bool any_order = false;  ///< products in whatever order is fastest, which may depend on the number of rows
  bool graphs = true;      ///< recorded graphs may be used
};
std::unique_ptr<GpuBackend> make_gpu_backend(const GpuOptions& options);
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace tpinfer
