#pragma once

/// Norms and activations, compiled once per kernel set; see simd.hpp.

#include "backend/cpu/kernels.hpp"
#include "backend/cpu/math.hpp"

namespace tpinfer {
namespace {

inline int lanes_left(std::int64_t left) { return left < 16 ? static_cast<int>(left) : 16; }

inline void store_as(DType dtype, void* out, std::int64_t index, Lanes value, int lanes) {
  if (dtype == DType::bfloat16)
    store_bfloat16(static_cast<std::uint16_t*>(out) + index, value, lanes);
  else
    store_first(static_cast<float*>(out) + index, value, lanes);
}

inline void exponentials(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) {
    const int lanes = lanes_left(count - i);
    store_first(y + i, exponential(load_first(x + i, lanes)), lanes);
  }
}

inline void error_functions(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) {
    const int lanes = lanes_left(count - i);
    store_first(y + i, error_function(load_first(x + i, lanes)), lanes);
  }
}

/// tanh x = 1 - 2 / (1 + e^2x), to a few units of 2^-24.
inline Lanes hyperbolic_tangent(Lanes x) {
  return sub(set1(1.0F), div(set1(2.0F), add(set1(1.0F), exponential(mul(set1(2.0F), x)))));
}

inline Lanes soft_capped(Lanes x, float cap) { return mul(set1(cap), hyperbolic_tangent(div(x, set1(cap)))); }

inline void adjust(float* x, std::int64_t count, const AdjustParams& params) {
  for (std::int64_t i = 0; i < count; i += 16) {
    const int lanes = lanes_left(count - i);
    Lanes y = mul(load_first(x + i, lanes), set1(params.scale));
    if (params.clip > 0.0F) {
      const Lanes clip = set1(params.clip);  // NaN stays NaN: the limits are the first operands
      y = where_less(clip, y, clip, where_less(y, sub(set1(0.0F), clip), sub(set1(0.0F), clip), y));
    }
    if (params.soft_cap > 0.0F) y = soft_capped(y, params.soft_cap);
    store_first(x + i, y, lanes);
  }
}

/// Sum of (x - shift)^2: four sums of 16 lanes, each taking every fourth group of 16, then a fixed tree.
inline float sum_of_squares(const float* x, std::int64_t cols, float shift) {
  const Lanes s = set1(shift);
  Lanes sums[4] = {set1(0.0F), set1(0.0F), set1(0.0F), set1(0.0F)};
  int turn = 0;
  std::int64_t i = 0;
  for (; i + 16 <= cols; i += 16, turn = (turn + 1) & 3) {
    const Lanes d = sub(load(x + i), s);
    sums[turn] = mul_add(d, d, sums[turn]);
  }
  if (i < cols) {
    const int lanes = lanes_left(cols - i);
    const Lanes d = keep_lanes(sub(load_first(x + i, lanes), s), 0, lanes, 0.0F);
    sums[turn] = mul_add(d, d, sums[turn]);
  }
  return sum_of_lanes(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

inline float sum_of_row(const float* x, std::int64_t cols) {
  Lanes sums[4] = {set1(0.0F), set1(0.0F), set1(0.0F), set1(0.0F)};
  int turn = 0;
  for (std::int64_t i = 0; i < cols; i += 16, turn = (turn + 1) & 3)
    sums[turn] = add(sums[turn], load_first(x + i, lanes_left(cols - i)));
  return sum_of_lanes(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

inline void norm_row(const NormWork& work, std::int64_t row) {
  const float* x = work.x + row * work.cols;
  const auto cols = static_cast<float>(work.cols);
  const bool layer = work.params.kind == NormKind::layer;
  const float mean = layer ? sum_of_row(x, work.cols) / cols : 0.0F;
  const float variance = sum_of_squares(x, work.cols, mean) / cols;
  const Lanes inverse = set1(1.0F / __builtin_sqrtf(variance + work.params.epsilon));
  for (std::int64_t i = 0; i < work.cols; i += 16) {
    const int lanes = lanes_left(work.cols - i);
    Lanes y = load_first(x + i, lanes);
    if (layer) y = sub(y, set1(mean));
    y = mul(mul(y, inverse), load_first(work.params.weight + i, lanes));
    if (work.params.bias != nullptr) y = add(y, load_first(work.params.bias + i, lanes));
    store_as(work.out_dtype, work.out, row * work.cols + i, y, lanes);
  }
}

inline void norm_rows(const NormWork& work, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) norm_row(work, row);
}

template <Activation A>
inline Lanes activation(Lanes x) {
  const Lanes one = set1(1.0F);
  if constexpr (A == Activation::silu) return div(x, add(one, exponential(sub(set1(0.0F), x))));
  if constexpr (A == Activation::gelu)
    return mul(mul(set1(0.5F), x), add(one, error_function(mul(x, set1(0.707106781F)))));
  if constexpr (A == Activation::gelu_tanh) {
    // x / 2 (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
    const Lanes cube = mul(mul(x, x), x);
    const Lanes u = mul(set1(0.797884561F), add(x, mul(set1(0.044715F), cube)));
    return div(x, add(one, exponential(mul(set1(-2.0F), u))));
  }
  return where_less(x, set1(0.0F), set1(0.0F), x);
}

template <Activation A>
inline void activate_with(const ActivationWork& work, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 16) {
    const int lanes = lanes_left(end - i);
    Lanes y = activation<A>(load_first(work.gate + i, lanes));
    if (work.up != nullptr) y = mul(y, load_first(work.up + i, lanes));
    store_as(work.out_dtype, work.out, i, y, lanes);
  }
}

inline void activate_range(const ActivationWork& work, std::int64_t begin, std::int64_t end) {
  switch (work.act) {
    case Activation::silu: return activate_with<Activation::silu>(work, begin, end);
    case Activation::gelu: return activate_with<Activation::gelu>(work, begin, end);
    case Activation::gelu_tanh: return activate_with<Activation::gelu_tanh>(work, begin, end);
    case Activation::relu: return activate_with<Activation::relu>(work, begin, end);
  }
}

}  // namespace
}  // namespace tpinfer
