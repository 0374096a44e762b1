#pragma once

/// The table of one kernel set: a kernels_*.cpp defines TPINFER_SIMD, includes this and returns kTable.

#include "backend/cpu/attention_impl.hpp"

namespace tpinfer {
namespace {

inline constexpr CpuKernels kTable{
    .exponentials = exponentials,
    .error_functions = error_functions,
    .norm = norm_rows,
    .sum_of_squares = [](const float* x, std::int64_t cols) { return sum_of_squares(x, cols, 0.0F); },
    .adjust = adjust,
    .activate = activate_range,
    .attention_scratch = scratch_floats,
    .attend = attend,
    .clear = clear_state,
    .fold = fold_block,
    .finish = finish_vectors,
};

}  // namespace
}  // namespace tpinfer
