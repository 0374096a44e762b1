#pragma once

/// Attention of AttentionWork's vectors, compiled once per kernel set: blocks one by one, folded in ascending order.

#include "backend/cpu/attention_block.hpp"

namespace tpinfer {
namespace {

inline void clear_state(const AttentionWork& work, const AttentionState& state) {
  for (std::int64_t i = 0; i < work.vectors; ++i) {
    state.maximum[i] = -__builtin_inff();
    state.sum[i] = 0.0F;
  }
  __builtin_memset(state.values, 0, sizeof(float) * static_cast<std::size_t>(work.vectors * work.layout.padded_dim));
}

/// Folds one block's result into the state of vectors [first, last), at most kQueryGroup, that see the block: the
/// running maximum moves, and both sides are scaled to it.
inline void fold_group(const AttentionWork& work, std::int64_t block, std::int64_t first, std::int64_t last,
                       const AttentionState& from, const AttentionState& state) {
  const std::int64_t padded = work.layout.padded_dim;
  const std::int64_t count = last - first;
  static_assert(2 * kQueryGroup == 16);
  float shifts[2 * kQueryGroup] = {};  // exponents of the state's factors, then of the block's
  for (std::int64_t i = 0; i < count; ++i) {
    const float old = state.maximum[first + i];
    const float top = old > from.maximum[i] ? old : from.maximum[i];
    shifts[i] = old - top;
    shifts[kQueryGroup + i] = from.maximum[i] - top;
  }
  store(shifts, exponential(load(shifts)));
  for (std::int64_t i = 0; i < count; ++i) {
    if (visible(work, first + i, block).empty()) continue;
    float& maximum = state.maximum[first + i];
    maximum = maximum > from.maximum[i] ? maximum : from.maximum[i];
    state.sum[first + i] = state.sum[first + i] * shifts[i] + from.sum[i] * shifts[kQueryGroup + i];
    float* values = state.values + (first + i) * padded;
    for (std::int64_t d = 0; d < padded; d += 16) {
      const Lanes old = mul(load(values + d), set1(shifts[i]));
      store(values + d, mul_add(load(from.values + i * padded + d), set1(shifts[kQueryGroup + i]), old));
    }
  }
}

inline void fold_block(const AttentionWork& work, std::int64_t block, const AttentionState& from,
                       const AttentionState& state) {
  for (std::int64_t v = 0; v < work.vectors; v += kQueryGroup) {
    const std::int64_t last = v + kQueryGroup < work.vectors ? v + kQueryGroup : work.vectors;
    fold_group(work, block, v, last, {from.maximum + v, from.sum + v, from.values + v * work.layout.padded_dim}, state);
  }
}

inline void finish_vectors(const AttentionWork& work, const AttentionState& state) {
  const std::int64_t dim = work.layout.head_dim;
  const bool narrow = work.dtype == DType::bfloat16;
  for (std::int64_t i = 0; i < work.vectors; ++i) {
    std::byte* out = work.out + i / work.group * work.row_bytes + i % work.group * dim * (narrow ? 2 : 4);
    const float* values = state.values + i * work.layout.padded_dim;
    for (std::int64_t d = 0; d < dim; d += 16)
      store_as(narrow ? DType::bfloat16 : DType::float32, out, d, div(load(values + d), set1(state.sum[i])),
               lanes_left(dim - d));
  }
}

inline std::int64_t scratch_floats(const KvLayout& layout, std::int64_t vectors) {
  return vectors * layout.key_dim + kQueryGroup * (2 * kAttentionBlock + 2 + layout.padded_dim) + 16;
}

/// One query as float32, `to` [key_dim]; a channel of padding is 0.
inline void widen_query(const std::byte* from, bool narrow, const KvLayout& layout, float* to) {
  const std::int64_t dim = layout.head_dim;
  if (!narrow) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(dim) * sizeof(float));
    return;
  }
  const auto* bits = reinterpret_cast<const std::uint16_t*>(from);
  std::int64_t d = 0;
  for (; d + 16 <= dim; d += 16) store(to + d, load_bfloat16(bits + d));
  for (; d < dim; ++d) to[d] = __builtin_bit_cast(float, static_cast<std::uint32_t>(bits[d]) << 16);
  if (d < layout.key_dim) to[d] = 0.0F;
}

inline void gather_queries(const AttentionWork& work, float* to) {
  const bool narrow = work.dtype == DType::bfloat16;
  const std::int64_t bytes = work.layout.head_dim * (narrow ? 2 : 4);
  for (std::int64_t i = 0; i < work.vectors; ++i) {
    const std::byte* from = work.q + i / work.group * work.row_bytes + i % work.group * bytes;
    widen_query(from, narrow, work.layout, to + i * work.layout.key_dim);
  }
}

template <class Cache>
inline void attend_with(const AttentionWork& work, std::int64_t first, std::int64_t last, bool raw,
                        const AttentionState& state, float* scratch) {
  gather_queries(work, scratch);
  float* scores = scratch + work.vectors * work.layout.key_dim;
  float* weights = scores + kQueryGroup * kAttentionBlock;
  float* maximum = weights + kQueryGroup * kAttentionBlock;
  const AttentionState alone{maximum, maximum + kQueryGroup, maximum + 2 * kQueryGroup};
  BlockPass<Cache> pass(work, scores, weights);
  for (std::int64_t block = first; block < last; ++block) {
    for (std::int64_t v = 0; v < work.vectors; v += kQueryGroup) {
      const std::int64_t end = v + kQueryGroup < work.vectors ? v + kQueryGroup : work.vectors;
      const std::int64_t padded = work.layout.padded_dim;
      pass.result = raw ? AttentionState{state.maximum + v, state.sum + v, state.values + v * padded} : alone;
      pass.run(scratch + v * work.layout.key_dim, v, end, block);
      if (!raw) fold_group(work, block, v, end, alone, state);
    }
  }
}

inline void attend(const AttentionWork& work, std::int64_t first, std::int64_t last, bool raw,
                   const AttentionState& state, float* scratch) {
  switch (work.dtype) {
    case DType::float32: return attend_with<FloatCache>(work, first, last, raw, state, scratch);
    case DType::float16: return attend_with<HalfCache>(work, first, last, raw, state, scratch);
    default: return attend_with<Bfloat16Cache>(work, first, last, raw, state, scratch);
  }
}

}  // namespace
}  // namespace tpinfer
