#include "backend/cuda/launch.cuh"
#include "backend/cuda/product_job.cuh"

namespace tpinfer::cuda {
namespace {

/// A block of 16 Outputs DownWarps rows of weights and 8 Rows AcrossWarps rows of x; a warp takes Outputs x Rows
/// instructions' results of it.
template <int Outputs, int Rows, int DownWarps, int AcrossWarps, int Stages>
struct TileShape {
  static constexpr int kOutputs = Outputs;
  static constexpr int kRows = Rows;
  static constexpr int kAcrossWarps = AcrossWarps;
  static constexpr int kStages = Stages;
  static constexpr int kThreads = 32 * DownWarps * AcrossWarps;
  static constexpr int kBlockOutputs = 16 * Outputs * DownWarps;
  static constexpr int kBlockRows = 8 * Rows * AcrossWarps;
  static constexpr int kChunks = kStepColumns / 8;  // of a row of a stage
  static constexpr int kStageChunks = (kBlockOutputs + kBlockRows) * kChunks;
};
using LargeTile = TileShape<4, 4, 2, 4, 4>;   // 128 x 128
using MiddleTile = TileShape<2, 4, 2, 2, 5>;  // 64 x 64

/// Where the loop over ranges, their parts and their steps stands.
template <class T>
struct Cursor {
  int range = 0;
  int part = 0;
  int col = 0;       ///< first column of the step
  int part_end = 0;  ///< last column of the part, exclusive
  int range_begin = 0;
  int range_end = 0;

  __device__ explicit Cursor(const ProductJob<T>& job) : range_end(job.range_end(0)) { enter_part(job); }
  __device__ bool done(const ProductJob<T>& job) const { return range >= job.ranges; }
  /// The step is the last one of its part; an empty part has none.
  __device__ bool ends_part() const { return col + kStepColumns >= part_end; }
  __device__ bool ends_range(const ProductJob<T>&) const { return ends_part() && part_end == range_end; }
  __device__ void advance(const ProductJob<T>& job) {
    col += kStepColumns;
    if (col < part_end) return;
    ++part;
    enter_part(job);
  }

 private:
  /// Begins the part, or the first one after it that has columns.
  __device__ void enter_part(const ProductJob<T>& job) {
    while (range < job.ranges) {
      for (; part < kProductParts; ++part) {
        const PartColumns columns = part_of(range_begin, range_end, part);
        col = columns.begin;
        part_end = columns.end;
        if (col < part_end) return;
      }
      part = 0;
      range_begin = range_end;
      if (++range < job.ranges) range_end = job.range_end(range);
    }
  }
};

/// The rows of weights and x that one thread copies.
template <class T, class Shape>
struct Copies {
  static constexpr int kEach = Shape::kStageChunks / Shape::kThreads;
  const T* rows[kEach];

  __device__ Copies(const Product& product, const ProductJob<T>& job, int first_output) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = (static_cast<int>(threadIdx.x) + i * Shape::kThreads) / Shape::kChunks;
      rows[i] = row < Shape::kBlockOutputs ? job.row(first_output + row)
                                           : input_row(product, job, row - Shape::kBlockOutputs);
    }
  }
  /// Begins to copy the step at `cursor` into `stage`.
  __device__ void begin(const Cursor<T>& cursor, T* stage) const {
    const int offset = static_cast<int>(threadIdx.x) % Shape::kChunks * 8;
    const bool inside = cursor.col + offset < cursor.part_end;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      copy_async(stage + (static_cast<int>(threadIdx.x) + i * Shape::kThreads) * 8,
                 rows[i] + (inside ? cursor.col + offset : 0), inside);
  }
};

template <class T, class Shape>
__device__ void multiply_stage(float (&sums)[Shape::kOutputs][Shape::kRows][4], const T* stage) {
  const int g = lane_index() / 4;
  const int mine = lane_index() % 4 * 8;
  const T* left = stage + (warp_index() / Shape::kAcrossWarps * Shape::kOutputs * 16 + g) * kStepColumns + mine;
  const T* right = stage + Shape::kBlockOutputs * kStepColumns +
                   (warp_index() % Shape::kAcrossWarps * Shape::kRows * 8 + g) * kStepColumns + mine;
  Chunk<T> b[Shape::kRows];
#pragma unroll
  for (int r = 0; r < Shape::kRows; ++r) b[r] = load_chunk(right + r * 8 * kStepColumns);
#pragma unroll
  for (int o = 0; o < Shape::kOutputs; ++o) {
    const Chunk<T> low = load_chunk(left + o * 16 * kStepColumns);
    const Chunk<T> high = load_chunk(left + (o * 16 + 8) * kStepColumns);
#pragma unroll
    for (int r = 0; r < Shape::kRows; ++r) multiply(sums[o][r], low, high, b[r], nullptr);
  }
}

/// totals += sums; sums = 0.
template <int Outputs, int Rows>
__device__ void close_part(float (&totals)[Outputs][Rows][4], float (&sums)[Outputs][Rows][4]) {
#pragma unroll
  for (int o = 0; o < Outputs; ++o)
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        totals[o][r][i] += sums[o][r][i];
        sums[o][r][i] = 0.0F;
      }
}

/// Hands the sums of a range out; totals = 0.
template <class T, class Shape>
__device__ void close_range(const Product& product, const ProductJob<T>& job, int first_output,
                            float (&totals)[Shape::kOutputs][Shape::kRows][4]) {
  const int output = first_output + warp_index() / Shape::kAcrossWarps * Shape::kOutputs * 16 + lane_index() / 4;
  const int row = warp_index() % Shape::kAcrossWarps * Shape::kRows * 8 + lane_index() % 4 * 2;
#pragma unroll
  for (int o = 0; o < Shape::kOutputs; ++o)
#pragma unroll
    for (int r = 0; r < Shape::kRows; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        emit(product, job, row + r * 8 + i % 2, output + o * 16 + i / 2 * 8, totals[o][r][i]);
        totals[o][r][i] = 0.0F;
      }
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads) tiled_kernel(Product product) {
  TPINFER_SHARED_MEMORY(T, stages);
  const ProductJob<T> job = find_job<T>(product, static_cast<int>(blockIdx.x), Shape::kBlockRows);
  const int first_output = static_cast<int>(blockIdx.y) * Shape::kBlockOutputs;
  if (job.count == 0 || first_output >= job.outputs) return;
  const Copies<T, Shape> copies(product, job, first_output);
  const auto stage = [&](int step) { return stages + step % Shape::kStages * Shape::kStageChunks * 8; };
  Cursor<T> ahead(job);
  for (int s = 0; s < Shape::kStages - 1; ++s) {
    if (!ahead.done(job)) {
      copies.begin(ahead, stage(s));
      ahead.advance(job);
    }
    copy_async_commit();
  }
  float sums[Shape::kOutputs][Shape::kRows][4] = {};
  float totals[Shape::kOutputs][Shape::kRows][4] = {};
  Cursor<T> now(job);
  for (int step = 0; !now.done(job); ++step) {
    copy_async_wait<Shape::kStages - 2>();
    __syncthreads();  // the step has come for all threads, and all are through with the stage that is written next
    if (!ahead.done(job)) {
      copies.begin(ahead, stage(step + Shape::kStages - 1));
      ahead.advance(job);
    }
    copy_async_commit();
    multiply_stage<T, Shape>(sums, stage(step));
    if (now.ends_part()) {
      close_part(totals, sums);
      if (now.ends_range(job)) close_range<T, Shape>(product, job, first_output, totals);
    }
    now.advance(job);
  }
}

template <class T, class Shape>
void start(const Product& product, cudaStream_t stream) {
  const std::int64_t tiles =
      product.groups.tiles ? product.most_tiles : (product.rows + Shape::kBlockRows - 1) / Shape::kBlockRows;
  const auto outputs = static_cast<unsigned>((product.weights.rows + Shape::kBlockOutputs - 1) / Shape::kBlockOutputs);
  launch(tiled_kernel<T, Shape>,
         {.grid = dim3(static_cast<unsigned>(tiles), outputs),
          .block = dim3(Shape::kThreads),
          .shared_bytes = static_cast<std::size_t>(Shape::kStages * Shape::kStageChunks) * 16},
         stream, product);
}

}  // namespace

void multiply_tiled(const Product& product, bool large, cudaStream_t stream) {
  if (product.dtype == DType::float16)
    large ? start<__half, LargeTile>(product, stream) : start<__half, MiddleTile>(product, stream);
  else
    large ? start<__nv_bfloat16, LargeTile>(product, stream) : start<__nv_bfloat16, MiddleTile>(product, stream);
}

}  // namespace tpinfer::cuda
