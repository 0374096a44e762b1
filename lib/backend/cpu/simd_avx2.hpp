#pragma once

#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

namespace tpinfer {
namespace {

/// 16 float32 lanes in two registers; simd_scalar.hpp says what each operation does.
struct Lanes {
  __m256 lo;
  __m256 hi;
};

inline constexpr int kScoreTile = 4;
inline constexpr int kValueTile = 4;

/// All bits of lane i are set where first <= i + offset < last.
inline __m256i lane_mask(int offset, int first, int last) {
  const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(offset));
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane),
                             _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane));
}

inline Lanes set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline Lanes load_first(const float* p, int n) {
  return {_mm256_maskload_ps(p, lane_mask(0, 0, n)), _mm256_maskload_ps(p + 8, lane_mask(8, 0, n))};
}
inline void store(float* p, Lanes a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline void store_first(float* p, Lanes a, int n) {
  _mm256_maskstore_ps(p, lane_mask(0, 0, n), a.lo);
  _mm256_maskstore_ps(p + 8, lane_mask(8, 0, n), a.hi);
}

inline Lanes add(Lanes a, Lanes b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline Lanes sub(Lanes a, Lanes b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline Lanes mul(Lanes a, Lanes b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline Lanes div(Lanes a, Lanes b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline Lanes mul_add(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Lanes max(Lanes a, Lanes b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Lanes min(Lanes a, Lanes b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline Lanes absolute(Lanes a) {
  const __m256 bit = _mm256_set1_ps(-0.0F);
  return {_mm256_andnot_ps(bit, a.lo), _mm256_andnot_ps(bit, a.hi)};
}
inline Lanes copy_sign(Lanes magnitude, Lanes sign) {
  const __m256 bit = _mm256_set1_ps(-0.0F);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.lo), _mm256_and_ps(bit, sign.lo)),
          _mm256_or_ps(_mm256_andnot_ps(bit, magnitude.hi), _mm256_and_ps(bit, sign.hi))};
}
inline Lanes where_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
inline Lanes nan_or(Lanes x, Lanes y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(x.lo, x.lo, _CMP_UNORD_Q)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(x.hi, x.hi, _CMP_UNORD_Q))};
}
inline Lanes keep_lanes(Lanes a, int first, int last, float other) {
  const __m256 rest = _mm256_set1_ps(other);
  return {_mm256_blendv_ps(rest, a.lo, _mm256_castsi256_ps(lane_mask(0, first, last))),
          _mm256_blendv_ps(rest, a.hi, _mm256_castsi256_ps(lane_mask(8, first, last)))};
}
inline __m256 times_power_of_two(__m256 a, __m256 n) {
  const __m256i power = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(power, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(power, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
inline Lanes times_power_of_two(Lanes a, Lanes n) {
  return {times_power_of_two(a.lo, n.lo), times_power_of_two(a.hi, n.hi)};
}

inline float sum_of_lanes(Lanes a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_of_lanes(Lanes a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline Lanes load_half(const std::uint16_t* p) {
  const auto* halves = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
inline void load_bfloat16_pairs(const std::uint16_t* p, Lanes& first, Lanes& second) {
  const auto* pairs = reinterpret_cast<const __m256i*>(p);
  const __m256i a = _mm256_loadu_si256(pairs);
  const __m256i b = _mm256_loadu_si256(pairs + 1);
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  first = {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
  second = {_mm256_castsi256_ps(_mm256_and_si256(a, upper)), _mm256_castsi256_ps(_mm256_and_si256(b, upper))};
}
inline __m256 widen_bfloat16(__m128i halves) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
inline Lanes load_bfloat16(const std::uint16_t* p) {
  const auto* halves = reinterpret_cast<const __m128i*>(p);
  return {widen_bfloat16(_mm_loadu_si128(halves)), widen_bfloat16(_mm_loadu_si128(halves + 1))};
}
/// The upper halves of the lanes are the bfloat16; the lower ones are left over.
inline __m256i round_upper_half(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}
inline Lanes rounded_to_bfloat16(Lanes a) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  return {_mm256_castsi256_ps(_mm256_and_si256(round_upper_half(a.lo), upper)),
          _mm256_castsi256_ps(_mm256_and_si256(round_upper_half(a.hi), upper))};
}
inline void store_bfloat16(std::uint16_t* p, Lanes a, int n = 16) {
  const __m256i lo = _mm256_srli_epi32(round_upper_half(a.lo), 16);
  const __m256i packed = _mm256_packus_epi32(lo, _mm256_srli_epi32(round_upper_half(a.hi), 16));
  const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xd8);
  if (n == 16) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ordered);
  alignas(32) std::uint16_t all[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(all), ordered);
  for (int i = 0; i < n; ++i) p[i] = all[i];
}

}  // namespace
}  // namespace tpinfer
#endif
