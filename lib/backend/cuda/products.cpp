#include "backend/cuda/products.hpp"

namespace tpinfer::cuda {
namespace {

constexpr int kMostRows = 128;  // of a block

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

int product_tile_rows(DType dtype, bool aligned, std::int64_t rows) {
  if (rows <= 8) return 8;
  if (rows <= 16) return 16;
  if (rows <= 32 || dtype == DType::float32) return 32;
  return rows <= 64 || !aligned ? 64 : kMostRows;
}

void multiply(const Product& product, int processors, cudaStream_t stream) {
  const bool grouped = product.groups.tiles != nullptr;
  const int rows =
      grouped ? product.tile_rows : product_tile_rows(product.dtype, product.weights.aligned, product.rows);
  if (rows < kMostRows) return multiply_streamed(product, rows, stream);
  const std::int64_t blocks = divide_up(product.rows, kMostRows) * divide_up(product.weights.rows, 128);
  multiply_tiled(product, grouped || blocks >= processors, stream);
}

}  // namespace tpinfer::cuda
