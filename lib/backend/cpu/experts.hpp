#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer {

/// y[i] = e^x[i], of one kernel set.
using Exponentials = void (*)(const float* x, float* y, std::int64_t count);

/// Backend::route on the CPU: one order of operations for any number of rows.
void cpu_route(ParallelFor& parallel, Exponentials exponentials, const Tensor& logits, const RoutingParams& params,
               const Routing& routing);

/// The (row, slot) pairs of a step in order of expert: entry i of `rows` and `weights` belongs to expert e for begin[e]
/// <= i < begin[e + 1].
struct ExpertGroups {
  std::vector<std::int32_t> rows;
  std::vector<float> weights;
  std::vector<std::int64_t> begin;  ///< [experts + 1]

  void group(const Routing& routing, std::int64_t row_count, std::int64_t experts);

 private:
  std::vector<std::int64_t> at_;  ///< next entry of each expert
};

}  // namespace tpinfer
