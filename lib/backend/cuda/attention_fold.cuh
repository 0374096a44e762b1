#pragma once

#include "backend/cuda/attention.hpp"
#include "backend/cuda/fragments.cuh"
#include "backend/cuda/kv_layout.cuh"

namespace tpinfer::cuda {

inline constexpr int kBlock = static_cast<int>(kAttentionBlock);
inline constexpr int kGroupPositions = 32;
inline constexpr int kGroups = kBlock / kGroupPositions;
inline constexpr float kLog2E = 1.44269504F;

/// What every kernel of attention reads and writes.
template <class T>
struct AttentionWork {
  const T* q;
  T* out;
  KvView<const T> kv;
  const std::int32_t* positions;
  const std::int32_t* row_begin;
  const std::int32_t* block_table;
  std::int64_t table_width;
  std::int64_t window;
  float scale;          ///< of scores: in powers of two, unless they are bent
  float soft_cap;       ///< 0: none
  const float* slopes;  ///< [query heads]; null: none
  int sequences;
  int group;
};

/// Scores have a soft cap or a bias.
inline bool is_bent(const AttentionParams& params) { return params.soft_cap > 0.0F || params.slopes; }

template <class T>
AttentionWork<T> attention_work(const AttentionCall& call) {
  return {.q = static_cast<const T*>(call.q.data),
          .out = static_cast<T*>(call.out.data),
          .kv = kv_view(call.spec, static_cast<const T*>(call.layer)),
          .positions = call.batch.positions,
          .row_begin = call.batch.row_begin,
          .block_table = call.batch.block_table,
          .table_width = call.batch.table_width,
          .window = call.params.window,
          .scale = is_bent(call.params) ? call.params.scale : call.params.scale * kLog2E,
          .soft_cap = call.params.soft_cap,
          .slopes = call.params.slopes,
          .sequences = static_cast<int>(call.batch.sequences),
          .group = static_cast<int>(call.heads.q_heads / call.heads.kv_heads)};
}

/// Positions [first, last).
struct Seen {
  int first = 0;
  int last = 0;
};

/// What the row at `position` sees.
__device__ inline Seen seen_from(int position, std::int64_t window) {
  const std::int64_t first = window > 0 ? position + 1 - window : 0;
  return {first > 0 ? static_cast<int>(first) : 0, position + 1};
}

/// A product of q and k as a score in powers of two; `slope` is the head's, `distance` the key's position behind the
/// query's, 0 or below.
template <class T>
__device__ float scaled(const AttentionWork<T>& work, float product, float slope, int distance) {
  float score = product * work.scale;
  if (work.soft_cap == 0.0F && !work.slopes) return score;
  if (work.soft_cap > 0.0F) score = work.soft_cap * tanhf(score / work.soft_cap);
  return (score + slope * static_cast<float>(distance)) * kLog2E;
}

/// Maximum (of scores in powers of two) and sum of exponentials of a query vector.
struct Softmax {
  float maximum = -INFINITY;
  float sum = 0.0F;
};

/// Factors of the state's and the block's weighted V.
struct FoldFactors {
  float state;
  float block;
};

/// Folds a block into the state. A block of which the vector sees nothing has maximum -infinity and changes nothing; so
/// has one of NaN alone, whose sum is NaN.
__device__ inline FoldFactors fold(Softmax& state, const Softmax& block) {
  if (block.maximum == -INFINITY) {
    state.sum += block.sum;
    return {1.0F, 0.0F};
  }
  const float maximum = fmaxf(state.maximum, block.maximum);
  const FoldFactors factors{exp2f(state.maximum - maximum), exp2f(block.maximum - maximum)};
  state.maximum = maximum;
  state.sum = state.sum * factors.state + block.sum * factors.block;
  return factors;
}
__device__ inline float fold_value(float state, float block, const FoldFactors& factors) {
  return factors.block == 0.0F ? state * factors.state : state * factors.state + block * factors.block;
}

/// Results of single blocks: [query vectors of the step][blocks][2 + head_dim]: maximum, sum, weighted V.
struct PartialView {
  float* data;
  int blocks;
  int head_dim;
  __device__ float* at(std::int64_t vector, int block) const {
    return data + (vector * blocks + block) * (2 + head_dim);
  }
};

}  // namespace tpinfer::cuda
