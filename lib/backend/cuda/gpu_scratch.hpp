#pragma once

#include <algorithm>
#include <cstdint>

#include "core/dtype.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {

/// Most floats of blocks of attention that a GPU computes side by side for a few sequences.
inline constexpr std::int64_t kMostAttentionPartials = std::int64_t{16} << 20;

/// What the memory that a GPU's operations make for themselves depends on.
struct GpuScratchNeeds {
  std::int64_t max_rows = 0;
  std::int64_t max_sequences = 0;
  std::int64_t max_context = 0;
  std::int64_t q_heads = 0;  ///< of this rank
  std::int64_t head_dim = 0;
  std::int64_t hidden = 0;
  std::int64_t expert_slots = 0;  ///< 0: no mixture
  std::int64_t experts = 0;
  DType partials = DType::float32;
};

/// An upper bound of it, bytes.
inline std::uint64_t gpu_scratch_bytes(const GpuScratchNeeds& needs) {
  const std::int64_t blocks = (needs.max_context + kAttentionBlock - 1) / kAttentionBlock;
  // at most 16 vectors for each sequence and KV head, see wanted_partials()
  const std::int64_t vectors = std::min(needs.max_rows, 16 * needs.max_sequences) * needs.q_heads;
  const std::int64_t attention =
      blocks < 2 ? 0 : std::min(vectors * blocks * (2 + needs.head_dim), kMostAttentionPartials);
  const std::int64_t entries = needs.max_rows * needs.expert_slots;
  const std::int64_t results = needs.partials == DType::float32 ? entries * needs.hidden : 0;
  const std::int64_t lists = needs.expert_slots > 0 ? 7 * entries + 3 * needs.experts + 64 : 0;
  return static_cast<std::uint64_t>(attention + results + lists) * sizeof(float);
}

}  // namespace tpinfer
