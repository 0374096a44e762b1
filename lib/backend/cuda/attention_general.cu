#include "backend/cuda/attention_fold.cuh"
#include "backend/cuda/elements.cuh"

namespace tpinfer::cuda {
namespace {

constexpr int kThreads = 128;

/// The sequence whose rows hold `row`.
__device__ int sequence_of(const std::int32_t* row_begin, int sequences, int row) {
  int first = 0;
  int last = sequences;
  while (last - first > 1) {
    const int middle = (first + last) / 2;
    if (row_begin[middle] <= row)
      first = middle;
    else
      last = middle;
  }
  return first;
}

/// One query vector.
template <class T>
struct Attention {
  const AttentionWork<T>& work;
  float* query;    ///< [head_dim]
  float* values;   ///< [head_dim] weighted V so far
  float* weights;  ///< [kBlock] scores, then weights
  float* maxima;   ///< [4] of warps
  float* sums;     ///< [kGroups]
  Seen seen;
  const std::int32_t* blocks;
  int kv_head;
  float slope;

  /// Scores of the block in powers of two, -infinity where nothing is seen; -> their maximum.
  __device__ float score(int block) {
    float top = -INFINITY;
    for (int i = static_cast<int>(threadIdx.x); i < kBlock; i += kThreads) {
      const int position = block * kBlock + i;
      float score = -INFINITY;
      if (position >= seen.first && position < seen.last) {
        const T* key = work.kv.key(blocks[position / work.kv.block_size], kv_head, position % work.kv.block_size);
        score = 0.0F;
        for (int c = 0; c < work.kv.head_dim; ++c) score = fmaf(query[c], to_float(key[c]), score);
        score = scaled(work, score, slope, position + 1 - seen.last);
      }
      weights[i] = score;
      top = fmaxf(top, score);
    }
    for (int distance = 16; distance > 0; distance /= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, distance));
    if (lane_index() == 0) maxima[warp_index()] = top;
    __syncthreads();
    for (int warp = 0; warp < kThreads / 32; ++warp) top = fmaxf(top, maxima[warp]);
    return top;
  }

  /// Scores -> weights, rounded as V is stored; each group's sum of them before that.
  __device__ void soften(float maximum) {
    for (int i = static_cast<int>(threadIdx.x); i < kBlock; i += kThreads) {
      const float weight = weights[i] == -INFINITY ? 0.0F : exp2f(weights[i] - maximum);
      weights[i] = to_float(from_float<T>(weight));
      float sum = weight;
      for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
      if (lane_index() == 0) sums[i / kGroupPositions] = sum;
    }
    __syncthreads();
  }

  /// Weighted V of the block, folded into `values`.
  __device__ void weigh(int block, const FoldFactors& factors) {
    const int first = seen.first > block * kBlock ? seen.first : block * kBlock;
    const int last = seen.last < (block + 1) * kBlock ? seen.last : (block + 1) * kBlock;
    for (int c = static_cast<int>(threadIdx.x); c < work.kv.head_dim; c += kThreads) {
      float sum = 0.0F;
      for (int p = first; p < last; ++p) {
        const T* value = work.kv.value(blocks[p / work.kv.block_size], kv_head, p % work.kv.block_size);
        sum = fmaf(weights[p - block * kBlock], to_float(value[c * kValueTile]), sum);
      }
      values[c] = fold_value(values[c], sum, factors);
    }
    __syncthreads();  // before the weights are written again
  }
};

template <class T>
__global__ void attention_kernel(AttentionWork<T> work) {
  TPINFER_SHARED_MEMORY(float, shared);
  const auto row = static_cast<int>(blockIdx.x);
  const auto head = static_cast<int>(blockIdx.y);
  if (row >= work.row_begin[work.sequences]) return;  // padding
  const int dim = work.kv.head_dim;
  const std::int64_t place = (static_cast<std::int64_t>(row) * static_cast<int>(gridDim.y) + head) * dim;
  float* query = shared;
  float* weights = shared + 2 * dim;
  Attention<T> attention{work,
                         query,
                         query + dim,
                         weights,
                         weights + kBlock,
                         weights + kBlock + kThreads / 32,
                         seen_from(work.positions[row], work.window),
                         work.block_table + sequence_of(work.row_begin, work.sequences, row) * work.table_width,
                         head / work.group,
                         work.slopes ? work.slopes[head] : 0.0F};
  for (int c = static_cast<int>(threadIdx.x); c < dim; c += kThreads) {
    query[c] = to_float(work.q[place + c]);
    attention.values[c] = 0.0F;
  }
  __syncthreads();
  Softmax state;
  for (int block = attention.seen.first / kBlock; block * kBlock < attention.seen.last; ++block) {
    Softmax result;
    result.maximum = attention.score(block);
    attention.soften(result.maximum);
    for (int g = 0; g < kGroups; ++g) result.sum += attention.sums[g];
    attention.weigh(block, fold(state, result));
  }
  for (int c = static_cast<int>(threadIdx.x); c < dim; c += kThreads)
    work.out[place + c] = from_float<T>(attention.values[c] / state.sum);
}

}  // namespace

void attention_general(const AttentionCall& call, cudaStream_t stream) {
  const StepBatch& batch = call.batch;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(batch.rows), static_cast<unsigned>(call.heads.q_heads)),
      .block = dim3(kThreads),
      .shared_bytes = static_cast<std::size_t>(2 * call.heads.head_dim + kBlock + kThreads / 32 + kGroups) * 4};
  with_type(call.spec.dtype, call.layer, [&](auto* typed) {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    launch(attention_kernel<T>, shape, stream, attention_work<T>(call));
  });
}

}  // namespace tpinfer::cuda
