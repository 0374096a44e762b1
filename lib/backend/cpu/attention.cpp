#include "backend/cpu/attention.hpp"

#include <algorithm>
#include <atomic>

#include "core/error.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

/// Query vectors that pass over a block while it is in the cache.
constexpr std::int64_t kVectorsPerItem = 64;
/// Items for each thread from which on the work is even enough.
constexpr std::int64_t kItemsPerThread = 4;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Floats of an AttentionState, a whole number of cache lines.
std::int64_t state_floats(const AttentionWork& work) {
  return divide_up(2 * work.vectors, 16) * 16 + work.vectors * work.layout.padded_dim;
}

/// Floats that a thread needs for an item; a multiple of 1024, so that threads write to pages of their own.
std::int64_t item_floats(const CpuKernels& kernels, const AttentionWork& work) {
  return divide_up(kernels.attention_scratch(work.layout, work.vectors) + state_floats(work), 1024) * 1024;
}

AttentionState state_at(float* memory, const AttentionWork& work) noexcept {
  return {memory, memory + work.vectors, memory + divide_up(2 * work.vectors, 16) * 16};
}

/// In steps of 1 MiB: a longer context must not mean a new mapping in every step.
std::size_t reserved_bytes(std::int64_t floats) {
  return static_cast<std::size_t>(divide_up(floats, 1 << 18) * (1 << 18)) * sizeof(float);
}

void reserve(HugeMemory& memory, std::int64_t floats) {
  if (memory.bytes() < reserved_bytes(floats)) memory = HugeMemory(reserved_bytes(floats));
}

}  // namespace

void CpuAttention::plan_items(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params,
                              const StepBatch& batch, const CpuKvStore& kv, std::int64_t layer, const Tensor& out) {
  items_.clear();
  const std::int64_t group = heads.q_heads / heads.kv_heads;
  const std::int64_t enough = kItemsPerThread * parallel_.threads();
  const std::int64_t even = divide_up(batch.rows * heads.kv_heads, enough);
  const std::int64_t rows_per_item = std::max<std::int64_t>(1, std::min(kVectorsPerItem / group, even));
  const auto element = static_cast<std::int64_t>(dtype_size(q.dtype));
  AttentionWork work{.row_bytes = q.cols * element,
                     .group = group,
                     .window = params.window,
                     .scale = params.scale,
                     .soft_cap = params.soft_cap,
                     .layout = kv.layout(),
                     .dtype = kv.spec().dtype};
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    work.blocks = batch.block_table + s * batch.table_width;
    // Later rows see more positions: long items first, so that short ones fill the gaps at the end.
    for (std::int64_t end = batch.row_begin[s + 1]; end > batch.row_begin[s];) {
      const std::int64_t row = std::max<std::int64_t>(batch.row_begin[s], end - rows_per_item);
      work.vectors = (end - row) * group;
      work.first_position = batch.positions[row];
      const std::int64_t start =
          params.window > 0 ? std::max<std::int64_t>(0, work.first_position + 1 - params.window) : 0;
      for (std::int64_t h = 0; h < heads.kv_heads; ++h) {
        const std::int64_t offset = row * work.row_bytes + h * group * heads.head_dim * element;
        work.q = static_cast<const std::byte*>(q.data) + offset;
        work.out = static_cast<std::byte*>(out.data) + offset;
        if (params.slopes) work.slopes = params.slopes + h * group;
        work.head = kv.layer(layer) + h * work.layout.head_bytes;
        items_.push_back({work, start / kAttentionBlock, divide_up(batch.positions[end - 1] + 1, kAttentionBlock), -1});
      }
      end = row;
    }
  }
}

void CpuAttention::plan_tasks() {
  tasks_.clear();
  cut_items_.clear();
  std::int64_t total = 0;
  scratch_floats_ = 0;
  for (const Item& item : items_) {
    total += (item.last_block - item.first_block) * item.work.vectors;
    scratch_floats_ = std::max(scratch_floats_, item_floats(kernels_, item.work));
  }
  const std::int64_t threads = parallel_.threads();
  std::int64_t floats = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    Item& item = items_[i];
    const std::int64_t blocks = item.last_block - item.first_block;
    // Uncut, this item alone would take more than half of a thread's fair share.
    if (threads == 1 || blocks < 2 || blocks * item.work.vectors * 2 * threads <= total) {
      tasks_.push_back({i, -1});
      continue;
    }
    item.partial = floats;
    floats += blocks * state_floats(item.work);
    cut_items_.push_back(i);
    for (std::int64_t b = item.first_block; b < item.last_block; ++b) tasks_.push_back({i, b});
  }
  reserve(scratch_, scratch_floats_ * threads);
  reserve(partial_, floats);
}

std::uint64_t CpuAttention::most_bytes(const AttentionHeads& heads, DType cache, std::int64_t context, int threads) {
  const std::int64_t group = heads.q_heads / heads.kv_heads;
  const AttentionWork work{
      .vectors = std::max(group, kVectorsPerItem / group * group),
      .group = group,
      .layout = KvLayout({.layers = 1, .kv_heads = heads.kv_heads, .head_dim = heads.head_dim, .dtype = cache}),
      .dtype = cache};
  // an item is cut when it alone is more than half of a thread's share: fewer than two for each thread
  const std::int64_t cut = threads == 1 ? 0 : 2 * threads - 1;
  return reserved_bytes(item_floats(scalar_kernels(), work) * threads) +
         reserved_bytes(cut * divide_up(context, kAttentionBlock) * state_floats(work));
}

AttentionState CpuAttention::partial_state(const Item& item, std::int64_t block) const noexcept {
  auto* memory = reinterpret_cast<float*>(partial_.data()) + item.partial;
  return state_at(memory + (block - item.first_block) * state_floats(item.work), item.work);
}

template <class Body>
void CpuAttention::share(std::size_t count, const Body& body) {
  std::atomic<std::size_t> next{0};
  parallel_.run(parallel_.threads(), 1, [&](std::int64_t thread, std::int64_t) {
    float* scratch = reinterpret_cast<float*>(scratch_.data()) + thread * scratch_floats_;
    for (std::size_t i = next++; i < count; i = next++) body(i, scratch);
  });
}

void CpuAttention::fold(const Item& item, float* scratch) const {
  const AttentionState state = state_at(scratch, item.work);
  kernels_.clear(item.work, state);
  for (std::int64_t b = item.first_block; b < item.last_block; ++b)
    kernels_.fold(item.work, b, partial_state(item, b), state);
  kernels_.finish(item.work, state);
}

void CpuAttention::run(const Tensor& q, const AttentionHeads& heads, const AttentionParams& params,
                       const StepBatch& batch, const CpuKvStore& kv, std::int64_t layer, const Tensor& out) {
  const DType type = kv.spec().dtype == DType::bfloat16 ? DType::bfloat16 : DType::float32;
  if (q.dtype != type || out.dtype != type)
    throw Error(ExitCode::internal,
                fmt::format("attention over a {} cache takes queries and gives results in {}, not {} "
                            "and {}",
                            dtype_name(kv.spec().dtype), dtype_name(type), dtype_name(q.dtype), dtype_name(out.dtype)));
  if (heads.kv_heads == 0 || batch.rows == 0) return;
  plan_items(q, heads, params, batch, kv, layer, out);
  plan_tasks();
  share(tasks_.size(), [this](std::size_t i, float* scratch) {
    const Item& item = items_[tasks_[i].item];
    if (tasks_[i].block >= 0) {
      const std::int64_t block = tasks_[i].block;
      return kernels_.attend(item.work, block, block + 1, true, partial_state(item, block), scratch);
    }
    const AttentionState state = state_at(scratch, item.work);
    kernels_.clear(item.work, state);
    kernels_.attend(item.work, item.first_block, item.last_block, false, state, scratch + state_floats(item.work));
    kernels_.finish(item.work, state);
  });
  if (cut_items_.empty()) return;
  share(cut_items_.size(), [this](std::size_t i, float* scratch) { fold(items_[cut_items_[i]], scratch); });
}

}  // namespace tpinfer
