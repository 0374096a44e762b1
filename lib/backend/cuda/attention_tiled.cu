#include "backend/cuda/attention_tile.cuh"
#include "backend/cuda/launch.cuh"

namespace tpinfer::cuda {
namespace {

constexpr int kWarps = kAttentionWarps;
constexpr int kThreads = 32 * kWarps;

/// One block of threads: Tiles x 16 query vectors of a sequence and KV head. Warp w takes vectors of tile w % Tiles; of
/// the positions of a block its share for scores, and of the channels its share for weighted V.
template <class T, int Tiles, int MostChannels>
struct Attention {
  static constexpr int kShares = kWarps / Tiles;
  static constexpr int kMyGroups = kGroups / kShares;
  static constexpr int kMyChannels = (MostChannels / 8 + kShares - 1) / kShares;  // tiles of 8

  const TiledWork<T>& work;
  const Tile tile;
  T* queries;     ///< [Tiles * 16, query_stride]
  T* weights;     ///< [Tiles * 16, kWeightStride]
  float* maxima;  ///< [kShares, Tiles * 16]
  float* sums;    ///< [kGroups, Tiles * 16]
  int share = warp_index() / Tiles;
  int my_row = warp_index() % Tiles * kVectors + lane_index() / 4;  ///< and 8 below
  int t = lane_index() % 4;
  int head = static_cast<int>(blockIdx.y);
  int begin = 0;  ///< positions that any vector of the tile sees
  int end = 0;
  Seen seen[2];  ///< of my vectors
  float slopes[2] = {0.0F, 0.0F};
  Softmax state[2];
  float scores[kMyGroups][4][4];
  float block_values[kMyChannels][4];
  float values[kMyChannels][4];

  __device__ Attention(const TiledWork<T>& all, const Tile& mine, T* shared) : work(all), tile(mine), queries(shared) {
    weights = queries + Tiles * kVectors * query_stride(work.kv.head_dim);
    maxima = reinterpret_cast<float*>(weights + Tiles * kVectors * kWeightStride);
    sums = maxima + kShares * Tiles * kVectors;
    const int last = tile.vectors - tile.first < Tiles * kVectors ? tile.vectors : tile.first + Tiles * kVectors;
    const int last_row = tile.first_row + (last - 1) / work.group;
    begin = seen_from(work.positions[tile.first_row + tile.first / work.group], work.window).first;
    end = work.positions[last_row] + 1;
    for (int i = 0; i < 2; ++i) {
      const int vector = tile.first + my_row + 8 * i;
      if (vector >= tile.vectors) continue;
      seen[i] = seen_from(work.positions[tile.first_row + vector / work.group], work.window);
      if (work.slopes) slopes[i] = work.slopes[head * work.group + vector % work.group];
    }
    for (auto& four : values)
      for (float& value : four) value = 0.0F;
  }

  /// Place of a vector of the tile in q and out.
  __device__ std::int64_t place(int vector) const {
    const int row = tile.first_row + vector / work.group;
    return (static_cast<std::int64_t>(row) * work.q_heads + head * work.group + vector % work.group) * work.kv.head_dim;
  }

  __device__ void load_queries() {
    const int chunks = (work.kv.head_dim + kStepColumns - 1) / kStepColumns * kStepColumns / 8;
    for (int i = static_cast<int>(threadIdx.x); i < Tiles * kVectors * chunks; i += kThreads) {
      const int vector = tile.first + i / chunks;
      const int channel = i % chunks * 8;
      Pack<T> pack = zero_chunk<T>().packs[0];
      if (vector < tile.vectors && channel < work.kv.head_dim) pack = load_pack(work.q + place(vector) + channel);
      store_pack(queries + i / chunks * query_stride(work.kv.head_dim) + channel, pack);
    }
    __syncthreads();
  }

  __device__ std::int32_t cache_block(int position) const {
    return work.block_table[tile.sequence * work.table_width + position / work.kv.block_size];
  }

  /// Scores of one group of 32 positions from `first` on.
  __device__ void score_group(float (&group)[4][4], int first) {
    const T* keys[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int position = first + n * 8 + lane_index() / 4;
      keys[n] = position >= begin && position < end
                    ? work.kv.key(cache_block(position), head, position % work.kv.block_size) + t * 8
                    : nullptr;
#pragma unroll
      for (int i = 0; i < 4; ++i) group[n][i] = 0.0F;
    }
    const T* low = queries + my_row * query_stride(work.kv.head_dim) + t * 8;
    const T* high = low + 8 * query_stride(work.kv.head_dim);
    for (int channel = 0; channel < work.kv.head_dim; channel += kStepColumns) {
      const Chunk<T> a[2] = {load_chunk(low + channel), load_chunk(high + channel)};
      const bool inside = channel + t * 8 < work.kv.head_dim;
      Chunk<T> key[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) key[n] = keys[n] && inside ? load_chunk(keys[n] + channel) : zero_chunk<T>();
#pragma unroll
      for (int n = 0; n < 4; ++n) multiply(group[n], a[0], a[1], key[n], nullptr);
    }
  }

  /// Scores of my share of the block in powers of two, -infinity where a vector does not see; -> their maxima.
  __device__ void score(int block, float (&top)[2]) {
    top[0] = top[1] = -INFINITY;
#pragma unroll
    for (int m = 0; m < kMyGroups; ++m) {
      const int first = block * kBlock + (share * kMyGroups + m) * kGroupPositions;
      if (first < end && first + kGroupPositions > begin) score_group(scores[m], first);
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int position = first + n * 8 + t * 2 + i % 2;
          const bool visible = position >= seen[i / 2].first && position < seen[i / 2].last;
          scores[m][n][i] =
              visible ? scaled(work, scores[m][n][i], slopes[i / 2], position + 1 - seen[i / 2].last) : -INFINITY;
          top[i / 2] = fmaxf(top[i / 2], scores[m][n][i]);
        }
    }
    for (int i = 0; i < 2; ++i)
      for (int distance = 1; distance < 4; distance *= 2)
        top[i] = fmaxf(top[i], __shfl_xor_sync(kAllLanes, top[i], distance));
  }

  /// Scores -> weights, in shared memory, and each group's sum of them before they are rounded.
  __device__ void soften(const Softmax (&block)[2]) {
#pragma unroll
    for (int m = 0; m < kMyGroups; ++m)
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float sum = 0.0F;
        T* to = weights + (my_row + 8 * row) * kWeightStride + (share * kMyGroups + m) * kGroupPositions + t * 2;
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float score = scores[m][n][2 * row + i];
            const float weight = score == -INFINITY ? 0.0F : exp2f(score - block[row].maximum);
            sum += weight;
            to[n * 8 + i] = from_float<T>(weight);
          }
        for (int distance = 1; distance < 4; distance *= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
        if (t == 0) sums[(share * kMyGroups + m) * Tiles * kVectors + my_row + 8 * row] = sum;
      }
  }

  /// Eight positions of a channel of V, from `position` on; zeros where no vector of the tile sees.
  __device__ Chunk<T> load_values(const T* from, int position) const {
    Chunk<T> chunk = load_chunk(from);
    if (position >= begin && position + 8 <= end) return chunk;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (position + i < begin || position + i >= end) chunk.packs[0].at[i] = from_float<T>(0.0F);
    return chunk;
  }

  /// block_values = weights times V for my share of the channels.
  __device__ void weigh(int block) {
    const int channel_tiles = work.kv.head_dim / 8;
#pragma unroll
    for (int c = 0; c < kMyChannels; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) block_values[c][i] = 0.0F;
    for (int step = 0; step < kBlock; step += kStepColumns) {
      const int first = block * kBlock + step;
      if (first >= end || first + kStepColumns <= begin) continue;
      const T* low = weights + my_row * kWeightStride + step + t * 8;
      const Chunk<T> a[2] = {load_chunk(low), load_chunk(low + 8 * kWeightStride)};
      const int position = first + t * 8;
      const bool inside = position < end && position + 8 > begin;
      const T* from = inside ? work.kv.value(cache_block(position), head, position % work.kv.block_size) +
                                   lane_index() / 4 * kValueTile
                             : nullptr;
      Chunk<T> value[kMyChannels];
#pragma unroll
      for (int c = 0; c < kMyChannels; ++c) {
        const int channels = share + c * kShares;
        value[c] = inside && channels < channel_tiles ? load_values(from + channels * 8 * kValueTile, position)
                                                      : zero_chunk<T>();
      }
#pragma unroll
      for (int c = 0; c < kMyChannels; ++c)
        if (share + c * kShares < channel_tiles) multiply(block_values[c], a[0], a[1], value[c], nullptr);
    }
  }

  /// One block of positions: block_values and -> maximum and sum of my vectors.
  __device__ void run_block(int block, Softmax (&result)[2]) {
    float top[2];
    score(block, top);
    for (int i = 0; i < 2; ++i)
      if (t == 0) maxima[share * Tiles * kVectors + my_row + 8 * i] = top[i];
    __syncthreads();  // and all are through with the weights of the block before
    for (int i = 0; i < 2; ++i)
      for (int s = 0; s < kShares; ++s)
        result[i].maximum = fmaxf(result[i].maximum, maxima[s * Tiles * kVectors + my_row + 8 * i]);
    soften(result);
    __syncthreads();
    for (int i = 0; i < 2; ++i)
      for (int g = 0; g < kGroups; ++g) result[i].sum += sums[g * Tiles * kVectors + my_row + 8 * i];
    weigh(block);
  }

  __device__ void fold_block(const Softmax (&block)[2]) {
    const FoldFactors factors[2] = {fold(state[0], block[0]), fold(state[1], block[1])};
#pragma unroll
    for (int c = 0; c < kMyChannels; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) values[c][i] = fold_value(values[c][i], block_values[c][i], factors[i / 2]);
  }

  /// Calls use(vector of the step, channel, place in out, which value) for each result of mine.
  template <class Use>
  __device__ void each_result(const Use& use) {
#pragma unroll
    for (int c = 0; c < kMyChannels; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int vector = tile.first + my_row + i / 2 * 8;
        const int channel = (share + c * kShares) * 8 + t * 2 + i % 2;
        if (vector < tile.vectors && channel < work.kv.head_dim) use(place(vector), channel, c, i);
      }
  }

  __device__ void write() {
    each_result([&](std::int64_t to, int channel, int c, int i) {
      work.out[to + channel] = from_float<T>(values[c][i] / state[i / 2].sum);
    });
  }

  __device__ void write_partial(int block, const Softmax (&result)[2]) {
    each_result([&](std::int64_t to, int channel, int c, int i) {
      float* partial = work.partials.at(to / work.kv.head_dim, block);
      if (channel == 0) {
        partial[0] = result[i / 2].maximum;
        partial[1] = result[i / 2].sum;
      }
      partial[2 + channel] = block_values[c][i];
    });
  }
};

template <class T, int Tiles, int MostChannels>
__global__ void __launch_bounds__(kThreads) attention_kernel(TiledWork<T> work) {
  TPINFER_SHARED_MEMORY(T, shared);
  const Tile tile = find_tile<T, Tiles>(work);
  if (tile.sequence < 0) return;
  Attention<T, Tiles, MostChannels> attention(work, tile, shared);
  const int first = attention.begin / kBlock;
  const int last = (attention.end + kBlock - 1) / kBlock;
  const bool alone = work.partials.data != nullptr;
  const auto mine = static_cast<int>(blockIdx.z);
  if (alone && (mine < first || mine >= last)) return;
  attention.load_queries();
  for (int block = alone ? mine : first; block < (alone ? mine + 1 : last); ++block) {
    Softmax result[2];
    attention.run_block(block, result);
    if (alone)
      attention.write_partial(block, result);
    else
      attention.fold_block(result);
  }
  if (!alone) attention.write();
}

/// Folds the blocks of a query vector: one block of threads each, one thread a channel.
template <class T>
__global__ void fold_kernel(TiledWork<T> work) {
  const auto row = static_cast<int>(blockIdx.x);
  const auto channel = static_cast<int>(threadIdx.x);
  if (channel >= work.kv.head_dim || row >= work.row_begin[work.sequences]) return;
  const std::int64_t vector = static_cast<std::int64_t>(row) * work.q_heads + static_cast<int>(blockIdx.y);
  const Seen seen = seen_from(work.positions[row], work.window);
  Softmax state;
  float value = 0.0F;
  for (int block = seen.first / kBlock; block * kBlock < seen.last; ++block) {
    const float* partial = work.partials.at(vector, block);
    const FoldFactors factors = fold(state, {partial[0], partial[1]});
    value = fold_value(value, partial[2 + channel], factors);
  }
  work.out[vector * work.kv.head_dim + channel] = from_float<T>(value / state.sum);
}

template <class T, int Tiles, int MostChannels>
void start_tiles(const TiledWork<T>& work, dim3 grid, cudaStream_t stream) {
  launch(attention_kernel<T, Tiles, MostChannels>,
         {.grid = grid, .block = dim3(kThreads), .shared_bytes = attention_shared_bytes<Tiles>(work.kv.head_dim)},
         stream, work);
}

/// One block for each sequence (and block of positions).
template <class T>
void start_short(const TiledWork<T>& work, dim3 grid, cudaStream_t stream) {
  if (work.kv.head_dim <= 64) return start_tiles<T, 1, 64>(work, grid, stream);
  if (work.kv.head_dim <= 128) return start_tiles<T, 1, 128>(work, grid, stream);
  start_tiles<T, 1, 256>(work, grid, stream);
}

/// Blocks of up to 64 query vectors, of 32 where the results of so many do not fit in registers.
template <class T>
void start_long(const TiledWork<T>& work, std::int64_t rows, unsigned heads, cudaStream_t stream) {
  const int tiles = work.kv.head_dim <= 128 ? 4 : 2;
  const dim3 grid(static_cast<unsigned>(rows * work.group / (tiles * kVectors) + work.sequences), heads);
  if (work.kv.head_dim <= 64) return start_tiles<T, 4, 64>(work, grid, stream);
  if (work.kv.head_dim <= 128) return start_tiles<T, 4, 128>(work, grid, stream);
  start_tiles<T, 2, 256>(work, grid, stream);
}

template <class T>
void run(const AttentionCall& call, cudaStream_t stream) {
  const StepBatch& batch = call.batch;
  const auto heads = static_cast<unsigned>(call.heads.kv_heads);
  const std::int64_t group = call.heads.q_heads / call.heads.kv_heads;
  TiledWork<T> work{
      attention_work<T>(call),
      static_cast<int>(call.heads.q_heads),
      {nullptr, static_cast<int>((batch.max_context + kBlock - 1) / kBlock), static_cast<int>(call.heads.head_dim)}};
  const auto sequences = static_cast<unsigned>(batch.sequences);
  if (batch.max_rows * group > kVectors) {
    start_long(work, batch.rows, heads, stream);
    if (batch.sequences > 1) start_short(work, dim3(sequences, heads), stream);
    return;
  }
  if (!call.partials) return start_short(work, dim3(sequences, heads), stream);
  work.partials.data = call.partials;
  start_short(work, dim3(sequences, heads, static_cast<unsigned>(work.partials.blocks)), stream);
  launch(fold_kernel<T>,
         {.grid = dim3(static_cast<unsigned>(batch.rows), static_cast<unsigned>(call.heads.q_heads)),
          .block = dim3(static_cast<unsigned>((call.heads.head_dim + 31) / 32 * 32))},
         stream, work);
}

}  // namespace

bool has_tiled_attention(const KvSpec& spec) {
  return spec.dtype != DType::float32 && spec.head_dim % 8 == 0 && spec.head_dim <= 256;
}

void attention_tiled(const AttentionCall& call, cudaStream_t stream) {
  call.spec.dtype == DType::float16 ? run<__half>(call, stream) : run<__nv_bfloat16>(call, stream);
}

}  // namespace tpinfer::cuda
