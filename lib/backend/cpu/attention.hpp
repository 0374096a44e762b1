#pragma once

#include <vector>

#include "backend/cpu/huge_memory.hpp"
#include "backend/cpu/kernels.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer {

/// Causal attention of one step on the CPU; keeps its working memory from call to call.
///
/// Work is cut into items: some rows of a sequence for one KV head. Where few items would leave threads idle, the long
/// ones are cut again at borders of kAttentionBlock: their blocks are computed apart and folded in ascending order
/// afterwards, which gives the same bits.
class CpuAttention {
 public:
  CpuAttention(const CpuKernels& kernels, ParallelFor& parallel) : kernels_(kernels), parallel_(parallel) {}

  /// q and out [rows, q_heads * head_dim], bfloat16 for a bfloat16 cache, otherwise float32.
  void run(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params, const StepBatch& batch,
           const CpuKvStore& kv, std::int64_t layer, const Tensor& out);
  /// Bytes of working memory now held.
  std::size_t bytes() const noexcept { return scratch_.bytes() + partial_.bytes(); }
  /// Bytes that it may come to hold on `threads` threads, for sequences of up to `context` positions.
  static std::uint64_t most_bytes(const AttentionHeads& heads, DType cache, std::int64_t context, int threads);

 private:
  struct Item {
    AttentionWork work;
    std::int64_t first_block = 0;
    std::int64_t last_block = 0;
    std::int64_t partial = -1;  ///< floats before its blocks' results in partial_; -1: not cut
  };
  struct Task {
    std::size_t item = 0;
    std::int64_t block = -1;  ///< -1: all of them
  };

  void plan_items(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params, const StepBatch& batch,
                  const CpuKvStore& kv, std::int64_t layer, const Tensor& out);
  void plan_tasks();
  /// Calls body(task number, thread's scratch) for [0, count), in any order and on any thread.
  template <class Body>
  void share(std::size_t count, const Body& body);
  void fold(const Item& item, float* scratch) const;
  AttentionState partial_state(const Item& item, std::int64_t block) const noexcept;

  const CpuKernels& kernels_;
  ParallelFor& parallel_;
  std::vector<Item> items_;
  std::vector<Task> tasks_;
  std::vector<std::size_t> cut_items_;
  HugeMemory scratch_;               ///< one part for each thread
  HugeMemory partial_;               ///< results of single blocks
  std::int64_t scratch_floats_ = 0;  ///< of a thread
};

}  // namespace tpinfer
