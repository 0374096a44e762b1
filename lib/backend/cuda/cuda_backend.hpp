#pragma once

#include <array>
#include <map>
#include <optional>

#include "backend/backend.hpp"
#include "backend/cpu/thread_team.hpp"
#include "backend/cuda/cublas_lt.hpp"
#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/cuda_matrix.hpp"
#include "backend/cuda/staging_ring.hpp"
#include "backend/factory.hpp"

namespace tpinfer {

/// Device memory that is made when it is first needed and grows.
class CudaScratch {
 public:
  /// At least `bytes`; what was there is lost.
  void* reserve(std::size_t bytes, cudaStream_t stream);
  void release() noexcept;
  void* data() const noexcept { return memory_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }
  /// How often it was made anew.
  std::uint64_t moves() const noexcept { return moves_; }

 private:
  CudaMemory memory_;
  std::size_t bytes_ = 0;
  std::uint64_t moves_ = 0;
};

struct CudaGraphTraits {
  using Handle = cudaGraph_t;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle graph) const noexcept { cudaGraphDestroy(graph); }
};
using CudaGraph = UniqueHandle<CudaGraphTraits>;

struct CudaGraphExecTraits {
  using Handle = cudaGraphExec_t;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle graph) const noexcept { cudaGraphExecDestroy(graph); }
};
using CudaGraphExec = UniqueHandle<CudaGraphExecTraits>;

/// One GPU: one compute stream that every operation runs on in order, and one copy stream for loading weights.
///
/// Nothing that an operation does waits for the device, so all of them can be captured in a graph after they have run
/// once (then scratch memory and tables are there). All calls come from the thread that made it: CUDA's current device
/// belongs to the thread. Failures of enqueued work are thrown by a later call, at the latest by synchronize().
///
/// Numbers: float32 partials (any sum over leaves and experts in ascending order) and float64 ones (leaf by leaf on the
/// grid) have the same bits whatever the batch; with any_order products do not.
class CudaBackend final : public GpuBackend, public RowChooser {
 public:
  /// Error(usage) when there is no driver, no GPU or none with this number.
  explicit CudaBackend(const GpuOptions& options);
  explicit CudaBackend(int device) : CudaBackend(GpuOptions{.device = device}) {}
  ~CudaBackend() override;

  int device() const noexcept { return device_; }
  cudaStream_t stream() const noexcept { return compute_.get(); }
  /// Threads of the host that read weights.
  ParallelFor& parallel() noexcept override { return team_; }
  void* queue() const noexcept override { return compute_.get(); }
  GpuMemory memory() const override;
  /// Device bytes of scratch memory so far.
  std::size_t scratch_bytes() const noexcept;

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

  void choose_rows(const Tensor& logits, std::span<const RowWish> wishes, std::span<const LogitEdit> edits,
                   std::span<const std::uint8_t> known) override;
  void take_choices(std::vector<RowChoice>& choices, std::vector<RankedId>& alternatives) override;

  bool has_graphs() const noexcept override { return graphs_wanted_; }
  void begin_graph() override;
  void end_graph(std::uint64_t key) override;
  bool run_graph(std::uint64_t key) override;

 private:
  /// The matrices of one layer's experts, for kernels.
  struct ExpertTable {
    CudaMemory memory;
    const cuda::WeightView* gate_up = nullptr;  ///< [experts] in device memory
    const cuda::WeightView* down = nullptr;
    cuda::WeightView widest_gate_up;  ///< the most rows, and whether all are aligned
    cuda::WeightView widest_down;
    std::int64_t most_channels = 0;
  };

  void wait_for(cudaStream_t later, cudaStream_t earlier);
  /// Enqueues what add_residual left to be done together with the norm that follows it.
  void settle();
  void multiply(const PackedMatrix& w, const Tensor& x, const float* bias, float* y, double* sums);
  void upload_dense(std::byte* to, std::int64_t to_cols, DType dtype, const StoredMatrix& from);
  void upload_converted(std::byte* to, std::int64_t to_cols, DType dtype, const StoredMatrix& from);
  const ExpertTable& expert_table(std::span<const ExpertMatrices> experts);
  cuda::ExpertEntries expert_entries(std::int64_t entries, std::int64_t most_tiles);
  std::array<const CudaScratch*, 5> scratches() const noexcept {
    return {&stored_, &attention_partials_, &expert_entries_, &expert_results_, &block_pairs_};
  }
  /// Error(internal) while a graph is recorded.
  void require_no_graph(std::string_view what) const;
  /// Changes when memory that kernels were given has moved.
  std::uint64_t memory_version() const noexcept;

  int device_;
  int processors_;
  bool graphs_wanted_;
  ThreadTeam team_;
  CudaStream compute_;
  CudaStream copy_;
  CudaEvent order_;
  StagingRing ring_;
  MatrixPool pool_;
  std::optional<CublasLtProducts> cublas_;
  CudaScratch stored_;  ///< stored weights on their way to be converted, a segment for each of the ring
  CudaScratch attention_partials_;
  CudaScratch expert_entries_;
  CudaScratch expert_results_;
  CudaScratch block_pairs_;
  CudaScratch row_choices_;
  CudaEvent chosen_;          ///< choices are on the host
  PinnedMemory chosen_rows_;  ///< RowChoice [chosen_count_], then RankedId [chosen_count_, chosen_alternatives_]
  std::size_t chosen_room_ = 0, chosen_count_ = 0, chosen_alternatives_ = 0;
  CudaScratch known_ids_;
  std::map<const PackedMatrix*, ExpertTable> expert_tables_;  ///< by the first expert's gate_up
  std::uint64_t tables_of_ = 0;                               ///< MatrixPool::destroyed() when they were made
  struct Addition {
    Tensor residual;
    cuda::Addend addend;
  };
  std::optional<Addition> addition_;
  struct KeptGraph {
    CudaGraphExec graph;
    std::uint64_t version = 0;  ///< memory_version() when it was recorded
  };
  std::map<std::uint64_t, KeptGraph> graphs_;
  bool recording_ = false;
};

}  // namespace tpinfer
