#pragma once

#include <string>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_matrix.hpp"
#include "backend/cuda/staging_ring.hpp"

namespace tpinfer {

/// One GPU: one compute stream that every operation runs on in order, and one copy stream for loading weights.
///
/// Incomplete: row-parallel products (matmul_partial), rotate_and_store, attention, learned positions (add_rows) and
/// mixtures of experts (route, experts) throw Error(usage), so
/// cuda_available() is false and no job can select it. The rest is written and compiled; what is not covered by a test
/// that ran on a GPU is not proven.
///
/// All calls come from the thread that made it: CUDA's current device belongs to the thread. Failures of enqueued work
/// are thrown by a later call, at the latest by synchronize().
class CudaBackend final : public Backend {
 public:
  /// Error(usage) when there is no driver, no GPU or none with this number.
  explicit CudaBackend(int device);
  ~CudaBackend() override;

  int device() const noexcept { return device_; }
  cudaStream_t stream() const noexcept { return compute_.get(); }

  DeviceInfo info() const override;
  /// Tensor cores take both operands in one type, so float16 weights want float16 inputs here.
  DType activation_dtype(DType compute) const override { return compute; }

  void* allocate(std::size_t bytes) override;
  void release(void* data, std::size_t bytes) noexcept override;
  void copy_to_device(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override;

  std::unique_ptr<PackedMatrix> create_matrix(const MatrixSpec& spec) override;
  void load_matrix(PackedMatrix& matrix, std::int64_t first_row, std::int64_t first_col,
                   const StoredMatrix& from) override;
  std::unique_ptr<KvStore> create_kv_store(const KvSpec& spec) override;

  void embed(const PackedMatrix& table, std::int64_t first_id, const StepBatch& batch, const Tensor& partials) override;
  void norm(const Tensor& x, const NormParams& params, const Tensor& out) override;
  void matmul(const PackedMatrix& w, const Tensor& x, const float* bias, const Tensor& y) override;
  void matmul_partial(const PackedMatrix& w, const Tensor& x, const Tensor& partials) override;
  void rotate_and_store(const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope, const StepBatch& batch,
                        KvStore& kv, std::int64_t layer, const Tensor& q) override;
  void attention(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params, const StepBatch& batch,
                 const KvStore& kv, std::int64_t layer, const Tensor& out) override;
  void activate(const Tensor& x, Activation act, bool gated, const Tensor& out) override;
  void add_residual(const Tensor& residual, const float* total, const float* bias) override;
  void add_rows(const PackedMatrix& table, const std::int32_t* index, const Tensor& residual) override;
  void route(const Tensor& logits, const RoutingParams& params, const Routing& routing) override;
  void experts(std::span<const ExpertMatrices> experts, const Tensor& x, const Routing& routing, Activation act,
               bool gated, const ExpertScratch& scratch, const Tensor& partials) override;
  void copy_kv_blocks(KvStore& kv, std::span<const std::int32_t> pairs) override;
  void gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out) override;

 private:
  void wait_for(cudaStream_t later, cudaStream_t earlier);

  int device_;
  CudaStream compute_;
  CudaStream copy_;
  CudaEvent order_;
  StagingRing ring_;
  CublasLt cublas_;
};

}  // namespace tpinfer
