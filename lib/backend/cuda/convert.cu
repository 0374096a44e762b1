#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/elements.cuh"

namespace tpinfer::cuda {
namespace {

constexpr int kSide = 32;

/// A block turns 32 x 32 elements by way of shared memory, so that both sides are read and written along their rows.
template <class From, class To>
__global__ void transpose_kernel(const From* from, int rows, int cols, To* to, std::int64_t to_cols) {
  __shared__ float tile[kSide][kSide + 1];
  const int first_row = static_cast<int>(blockIdx.x) * kSide;
  const int first_col = static_cast<int>(blockIdx.y) * kSide;
  const auto x = static_cast<int>(threadIdx.x);
  for (int y = static_cast<int>(threadIdx.y); y < kSide; y += static_cast<int>(blockDim.y))
    if (first_col + y < cols && first_row + x < rows)
      tile[y][x] = to_float(from[static_cast<std::int64_t>(first_col + y) * rows + first_row + x]);
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < kSide; y += static_cast<int>(blockDim.y))
    if (first_row + y < rows && first_col + x < cols)
      to[(first_row + y) * to_cols + first_col + x] = from_float<To>(tile[x][y]);
}

template <class From, class To>
__global__ void convert_kernel(const From* from, std::int64_t cols, To* to, std::int64_t to_cols) {
  const std::int64_t col = element_column();
  if (col < cols) to[element_row() * to_cols + col] = from_float<To>(to_float(from[element_row() * cols + col]));
}

template <class From, class To>
void start(const StoredBlock& block, const From* from, To* to, std::int64_t to_cols, cudaStream_t stream) {
  if (!block.transposed)
    return launch(convert_kernel<From, To>, element_shape(block.rows, block.cols), stream, from, block.cols, to,
                  to_cols);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>((block.rows + kSide - 1) / kSide),
                                       static_cast<unsigned>((block.cols + kSide - 1) / kSide)),
                          .block = dim3(kSide, 8)};
  launch(transpose_kernel<From, To>, shape, stream, from, static_cast<int>(block.rows), static_cast<int>(block.cols),
         to, to_cols);
}

}  // namespace

void convert(const StoredBlock& from, void* to, DType dtype, std::int64_t to_cols, std::int64_t first_row,
             std::int64_t first_col, cudaStream_t stream) {
  with_type(from.dtype, from.data, [&](auto* source) {
    with_type(dtype, to,
              [&](auto* target) { start(from, source, target + first_row * to_cols + first_col, to_cols, stream); });
  });
}

}  // namespace tpinfer::cuda
