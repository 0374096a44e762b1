#include <algorithm>

#include "backend/cpu/matmul.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

template <class Partial>
void embed(ParallelFor& parallel, const CpuMatrix& table, std::int64_t first_id, const StepBatch& batch,
           Partial* partials) {
  const std::int64_t cols = table.spec().cols;
  parallel.run(batch.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t row = batch.tokens[r] - first_id;
      Partial* out = partials + r * cols;
      if (row >= 0 && row < table.spec().rows)
        table.copy_row(row, out);
      else
        std::fill_n(out, cols, Partial{0});
    }
  });
}

}  // namespace

void cpu_embed(ParallelFor& parallel, const CpuMatrix& table, std::int64_t first_id, const StepBatch& batch,
               const Tensor& partials) {
  if (partials.dtype == DType::float64)
    embed(parallel, table, first_id, batch, static_cast<double*>(partials.data));
  else if (partials.dtype == DType::float32)
    embed(parallel, table, first_id, batch, partials.floats());
  else
    throw Error(ExitCode::internal, fmt::format("partial sums in {}", dtype_name(partials.dtype)));
}

}  // namespace tpinfer
