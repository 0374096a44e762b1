#pragma once

#include "backend/cpu/kernels.hpp"

namespace tpinfer {

/// Backend::head_squares.
void cpu_head_squares(const CpuKernels& kernels, const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k,
                      const Tensor& partials);

/// Backend::norm_heads for rows [begin, end).
void cpu_norm_heads(const CpuKernels& kernels, const Tensor& qkv, const AttentionHeads& heads,
                    const HeadNormParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tpinfer
