#include "backend/cpu/matmul.hpp"

#include <algorithm>

#include "backend/cpu/product.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

void run(const Product& product, ParallelFor& parallel, std::span<ProductScratch> scratch) {
  if (!scratch.empty()) return product.run(parallel, scratch);
  std::vector<ProductScratch> own(static_cast<std::size_t>(parallel.threads()));
  product.run(parallel, own);
}

}  // namespace

void cpu_matmul(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x, const float* bias,
                const Tensor& y, std::span<ProductScratch> scratch) {
  if (y.rows != x.rows || y.cols != w.spec().rows || y.dtype != DType::float32)
    throw Error(ExitCode::internal,
                fmt::format("outputs [{}, {}] of type {} for a product of {} rows with weights "
                            "[{}, {}]",
                            y.rows, y.cols, dtype_name(y.dtype), x.rows, w.spec().rows, w.spec().cols));
  const Product product(set, w, {&x, nullptr, x.rows}, bias, {.sums = y.floats()}, parallel.threads());
  if (x.rows == 0 || w.spec().rows == 0) return;
  if (!w.leaves().empty()) return run(product, parallel, scratch);
  for (std::int64_t r = 0; r < y.rows; ++r)
    for (std::int64_t c = 0; c < y.cols; ++c) y.floats()[r * y.cols + c] = bias != nullptr ? 0.0F + bias[c] : 0.0F;
}

void cpu_matmul_partial(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x,
                        const PartialSums& sums, std::span<ProductScratch> scratch) {
  const Product product(set, w, {&x, nullptr, x.rows}, nullptr, sums, parallel.threads());
  if (x.rows == 0 || w.spec().rows == 0) return;
  if (!w.leaves().empty()) return run(product, parallel, scratch);
  if (!sums.accumulate) clear_rows(sums, x.rows, w.spec().rows, 0, w.spec().rows);
}

void clear_rows(const PartialSums& sums, std::int64_t rows, std::int64_t cols, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = (sums.rows != nullptr ? sums.rows[r] : r) * cols;
    if (sums.totals != nullptr)
      std::fill(sums.totals + at + begin, sums.totals + at + end, 0.0);
    else
      std::fill(sums.sums + at + begin, sums.sums + at + end, 0.0F);
  }
}

}  // namespace tpinfer
