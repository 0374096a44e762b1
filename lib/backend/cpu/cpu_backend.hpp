#pragma once

#include <unordered_map>

#include "backend/cpu/attention.hpp"
#include "backend/cpu/mixture.hpp"
#include "backend/cpu/thread_team.hpp"
#include "backend/factory.hpp"

namespace tpinfer {

/// All operations are done when the call returns; device memory is plain memory.
class CpuBackendImpl final : public CpuBackend {
 public:
  CpuBackendImpl(KernelSet set, int threads);

  ParallelFor& parallel() noexcept override { return team_; }
  DeviceInfo info() const override;
  DType activation_dtype(DType compute) const override;

  void* allocate(std::size_t bytes) override;
  void release(void* data, std::size_t bytes) noexcept override;
  void copy_to_device(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void synchronize() override {}

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
  void add_residual(const Tensor& residual, const float* total, const float* bias, float scale) override;
  void add_rows(const PackedMatrix& table, std::int64_t first_row, const std::int32_t* index,
                const Tensor& residual) override;
  void adjust(const Tensor& x, const AdjustParams& params) override;
  void head_squares(const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k,
                    const Tensor& partials) override;
  void norm_heads(const Tensor& qkv, const AttentionHeads& heads, const HeadNormParams& params) override;
  void route(const Tensor& logits, const RoutingParams& params, const Routing& routing) override;
  void experts(std::span<const ExpertMatrices> experts, const Tensor& x, const Routing& routing, Activation act,
               bool gated, const ExpertScratch& scratch, const Tensor& partials) override;
  void copy_kv_blocks(KvStore& kv, std::span<const std::int32_t> pairs) override;
  void gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out) override;

 private:
  /// body(begin, end) over [0, count) on all threads, or here where count * cost elements are too few for that.
  template <class Body>
  void share(std::int64_t count, std::int64_t cost, const Body& body);

  KernelSet set_;
  const CpuKernels& kernels_;
  ThreadTeam team_;
  std::vector<ProductScratch> scratch_;  ///< [threads]
  CpuAttention attention_;
  CpuMixture mixture_;
  std::vector<float> row_;  ///< of add_rows
  std::unordered_map<void*, HugeMemory> allocations_;
};

}  // namespace tpinfer
