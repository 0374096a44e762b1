#include <algorithm>

#include "backend/cpu/matmul.hpp"

namespace tpinfer {

void cpu_embed(ParallelFor& parallel, const CpuMatrix& table, std::int64_t first_id, const StepBatch& batch,
               double* partials) {
  const std::int64_t cols = table.spec().cols;
  parallel.run(batch.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t row = batch.tokens[r] - first_id;
      double* out = partials + r * cols;
      if (row >= 0 && row < table.spec().rows)
        table.copy_row(row, out);
      else
        std::fill_n(out, cols, 0.0);
    }
  });
}

}  // namespace tpinfer
