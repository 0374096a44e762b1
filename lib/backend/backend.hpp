#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "core/unique_handle.hpp"

namespace tpinfer {

/// A weight matrix in the layout of one backend's kernels: y = x W^T with W [rows, cols] = [output features, input
/// features] of this rank.
struct MatrixSpec {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::float32;              ///< compute type; stored weights are converted to it on load
  std::vector<std::int64_t> leaf_ends = {};  ///< row-parallel: ends of this rank's leaves in its columns, ascending,
                                             ///< last = cols; empty: one dot product
  bool lookup_only = false;                  ///< rows are only ever looked up (an untied token embedding): no product
};

class PackedMatrix {
 public:
  explicit PackedMatrix(MatrixSpec spec) : spec_(std::move(spec)) {}
  virtual ~PackedMatrix() = default;
  const MatrixSpec& spec() const noexcept { return spec_; }
  /// Bytes of device memory owned, padding included.
  virtual std::size_t bytes() const noexcept = 0;

 private:
  MatrixSpec spec_;
};

struct KvSpec {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;  ///< of this rank
  std::int64_t head_dim = 0;
  std::int64_t block_size = 16;  ///< positions in a block: 16, 32, 64, 128 or 256
  std::int64_t blocks = 0;
  DType dtype = DType::float32;

  std::size_t bytes_per_block() const noexcept {
    return static_cast<std::size_t>(2 * layers * kv_heads * head_dim * block_size) * dtype_size(dtype);
  }
};

/// The paged KV cache of one rank, in the layout of one backend's attention kernels.
class KvStore {
 public:
  explicit KvStore(const KvSpec& spec) : spec_(spec) {}
  virtual ~KvStore() = default;
  const KvSpec& spec() const noexcept { return spec_; }

 private:
  KvSpec spec_;
};

/// The rows of one step. Each sequence's rows are adjacent and have ascending adjacent positions. Pointers are to
/// device memory, except host_*.
struct StepBatch {
  std::int64_t rows = 0;
  const std::int32_t* tokens = nullptr;     ///< [rows]
  const std::int32_t* positions = nullptr;  ///< [rows] absolute position of the row in its sequence
  const std::int32_t* slots = nullptr;  ///< [rows] where the row's K and V go: block * block_size + offset in the block
  std::int64_t sequences = 0;
  const std::int32_t* row_begin = nullptr;  ///< [sequences + 1] first row of each sequence; the last entry is `rows`
  const std::int32_t* block_table =
      nullptr;  ///< [sequences, table_width] cache blocks of each sequence in order of position
  std::int64_t table_width = 0;
  std::int64_t max_context = 0;  ///< largest position + 1 in this step
  std::int64_t max_rows = 0;     ///< most rows of one sequence in this step
  // With a graph (Backend::begin_graph) there may be padding: sequences without rows at the end, and rows beyond
  // row_begin[sequences] whose slot is -1. They cost time and change nothing else; max_context is then only a bound.
};

enum class NormKind { rms, layer };

struct NormParams {
  NormKind kind = NormKind::rms;
  const float* weight = nullptr;  ///< [cols]
  const float* bias = nullptr;    ///< [cols] or null
  float epsilon = 1e-5F;
};

enum class Activation { silu, gelu, gelu_tanh, relu };

/// Head counts of this rank; query head h reads KV head h / (q_heads / kv_heads).
struct AttentionHeads {
  std::int64_t q_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t qkv_cols() const noexcept { return (q_heads + 2 * kv_heads) * head_dim; }
};

/// cos and sin [positions, rotary_dim / 2] in device memory; element i of a head is paired with element i + rotary_dim
/// / 2 ("half" pairing), or element 2 i with 2 i + 1.
struct RopeTable {
  const float* cos = nullptr;  ///< null: no rotation
  const float* sin = nullptr;
  std::int64_t rotary_dim = 0;
  bool adjacent = false;
};

/// Norms of each head's q and k, before they are rotated.
struct HeadNormParams {
  NormKind kind = NormKind::rms;
  const float* q_weight = nullptr;  ///< [head_dim], or with each_head [heads, head_dim]
  const float* k_weight = nullptr;
  bool each_head = false;
  float epsilon = 1e-5F;
  /// One RMS norm over all q, and one over all k, of the ranks together: [rows, 2] their sums of squares, over q_cols
  /// and k_cols channels. Null: a norm for each head.
  const float* squares = nullptr;
  std::int64_t q_cols = 0, k_cols = 0;
};

/// x becomes x * scale, then limited to +- clip, then soft_cap * tanh(x / soft_cap); 0: no limit.
struct AdjustParams {
  float scale = 1.0F;
  float clip = 0.0F;
  float soft_cap = 0.0F;
  bool changes() const noexcept { return scale != 1.0F || clip > 0.0F || soft_cap > 0.0F; }
};

struct AttentionParams {
  float scale = 1.0F;
  std::int64_t window = 0;        ///< position p sees positions p - window + 1 .. p; 0: all up to p
  float soft_cap = 0.0F;          ///< scaled scores x become soft_cap * tanh(x / soft_cap); 0: they stay
  const float* slopes = nullptr;  ///< [q_heads] ALiBi: slope * (key position - query position) is added to scores then
};

/// Which experts each row goes to: `slots` entries a row in device memory. The routed experts of a row come first, best
/// first; a shared expert is the last slot of every row, with its own weight.
struct Routing {
  std::int32_t* experts = nullptr;  ///< [rows, slots]
  float* weights = nullptr;         ///< [rows, slots]
  std::int64_t slots = 0;
};

struct RoutingParams {
  std::int64_t experts = 0;    ///< routed ones
  std::int64_t per_token = 0;  ///< chosen for each row
  bool renormalise = false;    ///< the chosen weights are scaled to a sum of 1
  bool shared = false;  ///< column `experts` of the logits is the gate of a shared expert: its weight is the sigmoid
};

/// The MLP of one expert: gate and up rows in one matrix, then down.
struct ExpertMatrices {
  const PackedMatrix* gate_up = nullptr;
  const PackedMatrix* down = nullptr;
};

/// Buffers of Backend::experts, made by the caller so that they are planned.
struct ExpertScratch {
  Tensor inputs;     ///< [rows * slots, hidden] activation type
  Tensor up;         ///< [rows * slots, widest gate_up] float32
  Tensor activated;  ///< [rows * slots, widest channels] activation type
};

struct DeviceInfo {
  std::string kind;  ///< "cpu" or "cuda"
  std::string name;
  std::string uuid;
  int numa_node = -1;
  std::string kernel_set;
};

/// One device: its memory and the operations of the forward pass.
///
/// Every operation is *enqueued* on the backend's one compute stream and runs in order; on the CPU it is done when the
/// call returns. Device memory is apart from host memory: the runtime passes device pointers on and reads results only
/// through copy_to_host and synchronize. Activations: the residual stream, qkv, gate/up and logits are float32; inputs
/// of products have activation_dtype(compute). The result of a row never depends on the other rows of the call (docs:
/// numerics in README).
class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceInfo info() const = 0;
  /// Type in which inputs of products are handed over: bfloat16 for bfloat16 weights, otherwise float32 (on the CPU).
  virtual DType activation_dtype(DType compute) const = 0;

  // Memory
  virtual void* allocate(
      std::size_t bytes) = 0;  ///< zeroed, aligned to 64 bytes at least; Error(does_not_fit) when there is none
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
  virtual void copy_to_device(void* to, const void* from,
                              std::size_t bytes) = 0;  ///< `from` may be changed after the call
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;  ///< `to` is valid after synchronize()
  virtual void synchronize() = 0;

  // Weights
  virtual std::unique_ptr<PackedMatrix> create_matrix(const MatrixSpec& spec) = 0;
  /// Converts and packs `from` into rows [first_row, first_row + from.rows) and columns [first_col, ...) of the matrix.
  /// `from` lies in host memory.
  virtual void load_matrix(PackedMatrix& matrix, std::int64_t first_row, std::int64_t first_col,
                           const StoredMatrix& from) = 0;
  virtual std::unique_ptr<KvStore> create_kv_store(const KvSpec& spec) = 0;

  // Forward pass
  // `partials` of the row-parallel operations, [rows, hidden], is float64 (exact: leaf sums are rounded to the grid and
  // added in float64) or float32 (engine.reproducible: off: plain float32 sums in any order, no leaves, no grid).
  /// partials = row tokens[r] - first_id of the table where this rank has it, otherwise 0.
  virtual void embed(const PackedMatrix& table, std::int64_t first_id, const StepBatch& batch,
                     const Tensor& partials) = 0;
  /// out [rows, cols] = norm of each row of x (float32); out has its own dtype, and may be x itself.
  virtual void norm(const Tensor& x, const NormParams& params, const Tensor& out) = 0;
  /// y [rows, w.rows] (float32) = x w^T + bias. Each output is one dot product in one order.
  virtual void matmul(const PackedMatrix& w, const Tensor& x, const float* bias, const Tensor& y) = 0;
  /// partials [rows, w.rows] = x w^T: in float64 the sum over the leaves of w of (leaf sum rounded to the grid). A
  /// matrix without columns gives zeros.
  virtual void matmul_partial(const PackedMatrix& w, const Tensor& x, const Tensor& partials) = 0;
  /// Splits qkv (float32 [rows, heads.qkv_cols()]: all query heads, all K heads, all V heads), rotates Q and K, writes
  /// K and V to the cache at batch.slots and Q to q [rows, q_heads * head_dim] in the activation type.
  virtual void rotate_and_store(const Tensor& qkv, const AttentionHeads& heads, const RopeTable& rope,
                                const StepBatch& batch, KvStore& kv, std::int64_t layer, const Tensor& q) = 0;
  /// out [rows, q_heads * head_dim] (activation type) = causal attention of each row over its sequence's cache, in
  /// blocks of kAttentionBlock.
  virtual void attention(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params,
                         const StepBatch& batch, const KvStore& kv, std::int64_t layer, const Tensor& out) = 0;
  /// out [rows, width] = act(x[:, 0..width)) * x[:, width..2 width) when gated, else act(x). x float32, out in the
  /// activation type.
  virtual void activate(const Tensor& x, Activation act, bool gated, const Tensor& out) = 0;
  /// residual [rows, cols] += scale * (total + bias), float32; one of them may be null.
  virtual void add_residual(const Tensor& residual, const float* total, const float* bias, float scale) = 0;
  /// residual row r += row first_row + index[r] of the table (a lookup matrix), r < residual.rows.
  virtual void add_rows(const PackedMatrix& table, std::int64_t first_row, const std::int32_t* index,
                        const Tensor& residual) = 0;
  /// x [rows, cols] (float32) in its place.
  virtual void adjust(const Tensor& x, const AdjustParams& params) = 0;
  /// partials [rows, 2] = sums of squares of a row's q, and of its K heads from first_k on, in qkv as rotate_and_store
  /// takes it: in float64 each head's sum is rounded to the grid.
  virtual void head_squares(const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k,
                            const Tensor& partials) = 0;
  /// Norms q and k of qkv in their place.
  virtual void norm_heads(const Tensor& qkv, const AttentionHeads& heads, const HeadNormParams& params) = 0;
  /// Softmax of the first params.experts columns of logits (float32 [rows, experts (+ 1)]), the per_token best (ties to
  /// the lower number), their weights.
  virtual void route(const Tensor& logits, const RoutingParams& params, const Routing& routing) = 0;
  /// partials = sum over a row's slots of weight * down(act(gate_up(x))): in float64 each leaf sum of down is
  /// multiplied by the weight in float32, rounded to the grid and added, so that the order of experts is free.
  virtual void experts(std::span<const ExpertMatrices> experts, const Tensor& x, const Routing& routing, Activation act,
                       bool gated, const ExpertScratch& scratch, const Tensor& partials) = 0;
  /// Copies whole cache blocks, all layers, K and V: block pairs[2i] to block pairs[2i + 1], in that order (pairs lie
  /// in host memory and may change after the call). Earlier operations have read and written their blocks before.
  virtual void copy_kv_blocks(KvStore& kv, std::span<const std::int32_t> pairs) = 0;
  /// out row i = x row index[i] (device int32 [out.rows]); float32.
  virtual void gather_rows(const Tensor& x, const std::int32_t* index, const Tensor& out) = 0;

  // Graphs: a device may keep what is enqueued, to enqueue all of it again in one call.
  virtual bool has_graphs() const noexcept { return false; }
  /// Operations, and collectives that can be captured, are recorded until end_graph() and not run. They must have run
  /// once with the same shapes.
  virtual void begin_graph() {}
  /// Keeps what was recorded under `key` and runs it.
  virtual void end_graph(std::uint64_t /*key*/) {}
  /// Runs what is kept under `key`; false when there is nothing, or memory that it uses has moved since.
  virtual bool run_graph(std::uint64_t /*key*/) { return false; }
};

struct DeviceMemoryTraits {
  using Handle = void*;
  Backend* backend = nullptr;
  std::size_t bytes = 0;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle data) const noexcept { backend->release(data, bytes); }
};

/// Owner of device memory.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Backend& backend, std::size_t bytes)
      : handle_(bytes ? backend.allocate(bytes) : nullptr, {&backend, bytes}) {}
  void* data() const noexcept { return handle_.get(); }
  std::size_t bytes() const noexcept { return handle_ ? handle_.traits().bytes : 0; }
  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(handle_.get());
  }

 private:
  UniqueHandle<DeviceMemoryTraits> handle_;
};

}  // namespace tpinfer
