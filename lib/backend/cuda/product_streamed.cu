#include "backend/cuda/launch.cuh"
#include "backend/cuda/product_job.cuh"

namespace tpinfer::cuda {
namespace {

constexpr int kWarps = kProductParts;
constexpr int kThreads = 32 * kWarps;
constexpr int kTile = 16 * 8;    // sums of one matrix instruction
constexpr int kTilesAtOnce = 4;  // of each warp in the exchange

/// Columns of one part for Outputs x 16 rows of weights and Rows x 8 rows of x, in chains that begin at `sums`.
template <class T, int Outputs, int Rows, bool Aligned>
__device__ void add_columns(float (&sums)[Outputs][Rows][4], const T* const (&left)[Outputs][2],
                            const T* const (&right)[Rows], PartColumns part, float* scratch) {
  constexpr int kAhead = Aligned && sizeof(T) == 2 && Outputs * Rows <= 2 ? 4 : 1;  // steps that are loaded together
  const int mine = lane_index() % 4 * Chunk<T>::kSize;
  for (int begin = part.begin; begin < part.end; begin += kAhead * kStepColumns) {
    Chunk<T> a[kAhead][Outputs][2];
    Chunk<T> b[kAhead][Rows];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      const int col = begin + s * kStepColumns + mine;
      const auto load = [&](const T* row, bool streamed) {
        if constexpr (!Aligned) return load_chunk_ragged(row + col, part.end - col);
        if (col >= part.end) return zero_chunk<T>();
        return streamed ? load_chunk_streamed(row + col) : load_chunk(row + col);
      };
#pragma unroll
      for (int o = 0; o < Outputs; ++o)
#pragma unroll
        for (int half = 0; half < 2; ++half) a[s][o][half] = load(left[o][half], true);
#pragma unroll
      for (int r = 0; r < Rows; ++r) b[s][r] = load(right[r], false);
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (s > 0 && begin + s * kStepColumns >= part.end) break;
#pragma unroll
      for (int o = 0; o < Outputs; ++o)
#pragma unroll
        for (int r = 0; r < Rows; ++r) multiply(sums[o][r], a[s][o][0], a[s][o][1], b[s][r], scratch);
    }
  }
}

/// Adds the warps' parts in ascending order and hands the sums of a range out. `exchange`: [kWarps, kTilesAtOnce,
/// kTile].
template <class T, int Outputs, int Rows>
__device__ void add_parts(const Product& product, const ProductJob<T>& job, int first_output,
                          const float (&sums)[Outputs][Rows][4], float* exchange) {
  constexpr int kTiles = Outputs * Rows;
  constexpr int kAtOnce = kTiles < kTilesAtOnce ? kTiles : kTilesAtOnce;
  const int g = lane_index() / 4;
  const int t = lane_index() % 4;
#pragma unroll
  for (int first = 0; first < kTiles; first += kAtOnce) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        exchange[(warp_index() * kAtOnce + i) * kTile + (2 * t + part % 2) * 16 + g + part / 2 * 8] =
            sums[(first + i) / Rows][(first + i) % Rows][part];
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < kAtOnce * kTile; e += kThreads) {
      float total = exchange[e];
      for (int warp = 1; warp < kWarps; ++warp) total += exchange[warp * kAtOnce * kTile + e];
      const int tile = first + e / kTile;
      emit(product, job, tile % Rows * 8 + e % kTile / 16, first_output + tile / Rows * 16 + e % 16, total);
    }
    __syncthreads();
  }
}

/// A block takes Outputs x 16 rows of the weights and Rows x 8 rows of x; each warp one part of the columns.
template <class T, int Outputs, int Rows>
__global__ void __launch_bounds__(kThreads, Rows == 1   ? 3
                                            : Rows == 2 ? 2
                                                        : 1) streamed_kernel(Product product) {
  TPINFER_SHARED_MEMORY(float, shared);
  float* scratch = shared + warp_index() * kWarpScratch<T>;
  float* exchange = shared + kWarps * kWarpScratch<T>;
  const ProductJob<T> job = find_job<T>(product, static_cast<int>(blockIdx.y), Rows * 8);
  const int first_output = static_cast<int>(blockIdx.x) * Outputs * 16;
  if (job.count == 0 || first_output >= job.outputs) return;
  const int g = lane_index() / 4;
  const T* left[Outputs][2];
  const T* right[Rows];
#pragma unroll
  for (int o = 0; o < Outputs; ++o) {
    left[o][0] = job.row(first_output + o * 16 + g);
    left[o][1] = job.row(first_output + o * 16 + g + 8);
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) right[r] = input_row(product, job, r * 8 + g);
  int begin = 0;
  for (int range = 0; range < job.ranges; ++range) {
    const int end = job.range_end(range);
    const PartColumns part = part_of(begin, end, warp_index());
    float sums[Outputs][Rows][4] = {};
    if (product.weights.aligned)
      add_columns<T, Outputs, Rows, true>(sums, left, right, part, scratch);
    else
      add_columns<T, Outputs, Rows, false>(sums, left, right, part, scratch);
    add_parts(product, job, first_output, sums, exchange);
    begin = end;
  }
}

template <class T, int Outputs, int Rows>
void start(const Product& product, cudaStream_t stream) {
  constexpr int kTiles = Outputs * Rows < kTilesAtOnce ? Outputs * Rows : kTilesAtOnce;
  const std::int64_t tiles = product.groups.tiles ? product.most_tiles : (product.rows + Rows * 8 - 1) / (Rows * 8);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>((product.weights.rows + Outputs * 16 - 1) / (Outputs * 16)),
                   static_cast<unsigned>(tiles)),
      .block = dim3(kThreads),
      .shared_bytes = sizeof(float) * kWarps * (kWarpScratch<T> + kTiles * kTile)};
  launch(streamed_kernel<T, Outputs, Rows>, shape, stream, product);
}

template <class T>
void start_rows(const Product& product, int tile_rows, cudaStream_t stream) {
  switch (tile_rows) {
    case 8: return start<T, 1, 1>(product, stream);
    case 16: return start<T, 1, 2>(product, stream);
    case 32: return start<T, 2, 4>(product, stream);
    default: break;
  }
  if constexpr (sizeof(T) == 2) start<T, 2, 8>(product, stream);
}

}  // namespace

void multiply_streamed(const Product& product, int tile_rows, cudaStream_t stream) {
  switch (product.dtype) {
    case DType::float16: return start_rows<__half>(product, tile_rows, stream);
    case DType::bfloat16: return start_rows<__nv_bfloat16>(product, tile_rows, stream);
    default: return start_rows<float>(product, tile_rows, stream);
  }
}

}  // namespace tpinfer::cuda
