#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/products.hpp"
#include "backend/cuda/staging_ring.hpp"
#include "core/cuda_handles.hpp"

namespace tpinfer {

class MatrixPool;

/// Dense row-major [rows, cols] in the compute type, without padding.
class CudaMatrix final : public PackedMatrix {
 public:
  CudaMatrix(const MatrixSpec& spec, MatrixPool& pool);
  ~CudaMatrix() override;
  CudaMatrix(const CudaMatrix&) = delete;
  CudaMatrix& operator=(const CudaMatrix&) = delete;

  std::size_t bytes() const noexcept override;
  /// Where it lies, which is decided when a matrix of its pool is first wanted.
  std::byte* data() const;
  cuda::WeightView view() const;

 private:
  friend class MatrixPool;
  MatrixPool& pool_;
  std::shared_ptr<CudaMemory> block_;  ///< shared by the matrices that were made together
  std::size_t offset_ = 0;
  const std::int32_t* leaf_ends_ = nullptr;
  bool aligned_ = false;
};

/// Places matrices in device memory: all that were made since the last time lie in one block, because CUDA rounds every
/// allocation up to 2 MiB.
class MatrixPool {
 public:
  MatrixPool(cudaStream_t stream, StagingRing& ring) : stream_(stream), ring_(ring) {}
  /// Matrices that are gone: what was noted about others by their address may be about another one now.
  std::uint64_t destroyed() const noexcept { return destroyed_; }

 private:
  friend class CudaMatrix;
  void place();
  const std::int32_t* leaf_ends(const std::vector<std::int64_t>& ends);

  cudaStream_t stream_;
  StagingRing& ring_;
  std::uint64_t destroyed_ = 0;
  std::vector<CudaMatrix*> waiting_;
  std::map<std::vector<std::int64_t>, CudaMemory> leaf_ends_;
};

}  // namespace tpinfer
