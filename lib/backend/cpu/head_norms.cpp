#include "backend/cpu/head_norms.hpp"

#include <cmath>

#include "core/error.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

template <class Partial>
Partial squares_of(const CpuKernels& kernels, const float* heads, std::int64_t count, std::int64_t head_dim) {
  Partial sum = 0;
  for (std::int64_t h = 0; h < count; ++h) {
    const float squares = kernels.sum_of_squares(heads + h * head_dim, head_dim);
    if constexpr (std::is_same_v<Partial, double>)
      sum += round_to_grid(squares);
    else
      sum += squares;
  }
  return sum;
}

template <class Partial>
void head_squares(const CpuKernels& kernels, const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k,
                  Partial* partials) {
  for (std::int64_t r = 0; r < qkv.rows; ++r) {
    const float* q = qkv.floats() + r * qkv.cols;
    const float* k = q + (heads.q_heads + first_k) * heads.head_dim;
    partials[2 * r] = squares_of<Partial>(kernels, q, heads.q_heads, heads.head_dim);
    partials[2 * r + 1] = squares_of<Partial>(kernels, k, heads.kv_heads - first_k, heads.head_dim);
  }
}

// `heads` adjacent heads of one row, in their place.
void norm_each(const CpuKernels& kernels, float* x, std::int64_t heads, std::int64_t head_dim,
               const HeadNormParams& params, const float* weight) {
  for (std::int64_t h = 0; h < (params.each_head ? heads : 1); ++h) {
    float* from = x + h * head_dim;
    const NormWork work{.x = from,
                        .out = from,
                        .cols = head_dim,
                        .params = {.kind = params.kind, .weight = weight + h * head_dim, .epsilon = params.epsilon}};
    kernels.norm(work, 0, params.each_head ? 1 : heads);
  }
}

void scale_all(float* x, std::int64_t count, float squares, std::int64_t cols, float epsilon, const float* weight) {
  const float inverse = 1.0F / std::sqrt(squares / static_cast<float>(cols) + epsilon);
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] * inverse * weight[i];
}

}  // namespace

void cpu_head_squares(const CpuKernels& kernels, const Tensor& qkv, const AttentionHeads& heads, std::int64_t first_k,
                      const Tensor& partials) {
  if (partials.dtype == DType::float64)
    head_squares(kernels, qkv, heads, first_k, static_cast<double*>(partials.data));
  else if (partials.dtype == DType::float32)
    head_squares(kernels, qkv, heads, first_k, partials.floats());
  else
    throw Error(ExitCode::internal, fmt::format("sums of squares in {}", dtype_name(partials.dtype)));
}

void cpu_norm_heads(const CpuKernels& kernels, const Tensor& qkv, const AttentionHeads& heads,
                    const HeadNormParams& params, std::int64_t begin, std::int64_t end) {
  const std::int64_t q_cols = heads.q_heads * heads.head_dim;
  const std::int64_t k_cols = heads.kv_heads * heads.head_dim;
  for (std::int64_t r = begin; r < end; ++r) {
    float* q = qkv.floats() + r * qkv.cols;
    if (params.squares == nullptr) {
      norm_each(kernels, q, heads.q_heads, heads.head_dim, params, params.q_weight);
      norm_each(kernels, q + q_cols, heads.kv_heads, heads.head_dim, params, params.k_weight);
      continue;
    }
    scale_all(q, q_cols, params.squares[2 * r], params.q_cols, params.epsilon, params.q_weight);
    scale_all(q + q_cols, k_cols, params.squares[2 * r + 1], params.k_cols, params.epsilon, params.k_weight);
  }
}

}  // namespace tpinfer
