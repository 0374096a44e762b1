#pragma once

#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

namespace tpinfer {
namespace {

/// 16 float32 lanes in one register; simd_scalar.hpp says what each operation does.
using Lanes = __m512;

inline constexpr int kScoreTile = 16;
inline constexpr int kValueTile = 16;

inline __mmask16 lanes_below(int n) { return static_cast<__mmask16>((1U << n) - 1U); }

inline Lanes set1(float x) { return _mm512_set1_ps(x); }
inline Lanes load(const float* p) { return _mm512_loadu_ps(p); }
inline Lanes load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(lanes_below(n), p); }
inline void store(float* p, Lanes a) { _mm512_storeu_ps(p, a); }
inline void store_first(float* p, Lanes a, int n) { _mm512_mask_storeu_ps(p, lanes_below(n), a); }

inline Lanes add(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
inline Lanes sub(Lanes a, Lanes b) { return _mm512_sub_ps(a, b); }
inline Lanes mul(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes div(Lanes a, Lanes b) { return _mm512_div_ps(a, b); }
inline Lanes mul_add(Lanes a, Lanes b, Lanes c) { return _mm512_fmadd_ps(a, b, c); }
inline Lanes max(Lanes a, Lanes b) { return _mm512_max_ps(a, b); }
inline Lanes min(Lanes a, Lanes b) { return _mm512_min_ps(a, b); }
inline Lanes absolute(Lanes a) { return _mm512_abs_ps(a); }
inline Lanes copy_sign(Lanes magnitude, Lanes sign) {
  const Lanes bit = _mm512_set1_ps(-0.0F);
  return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
}
inline Lanes where_less(Lanes a, Lanes b, Lanes x, Lanes y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
inline Lanes nan_or(Lanes x, Lanes y) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), y, x); }
inline Lanes keep_lanes(Lanes a, int first, int last, float other) {
  const unsigned mask = ((1U << last) - 1U) & ~((1U << first) - 1U);
  return _mm512_mask_blend_ps(static_cast<__mmask16>(mask), set1(other), a);
}
inline Lanes times_power_of_two(Lanes a, Lanes n) { return _mm512_scalef_ps(a, n); }

inline float sum_of_lanes(Lanes a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_of_lanes(Lanes a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline Lanes load_half(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void load_bfloat16_pairs(const std::uint16_t* p, Lanes& first, Lanes& second) {
  const __m512i pairs = _mm512_loadu_si512(p);
  first = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  second = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
}
inline Lanes load_bfloat16(const std::uint16_t* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
/// The upper halves of the lanes are the bfloat16; the lower ones are left over.
inline __m512i round_upper_half(Lanes a) {
  const __m512i bits = _mm512_castps_si512(a);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
}
inline Lanes rounded_to_bfloat16(Lanes a) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  return _mm512_castsi512_ps(_mm512_and_si512(round_upper_half(a), upper));
}
inline void store_bfloat16(std::uint16_t* p, Lanes a, int n = 16) {
  const __m256i packed = _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_upper_half(a), 16));
  _mm256_mask_storeu_epi16(p, lanes_below(n), packed);
}

}  // namespace
}  // namespace tpinfer
#endif
