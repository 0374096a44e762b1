#pragma once

// For files compiled for AVX-512 only.

#include <immintrin.h>

#include "backend/cpu/matmul_kernel.hpp"

namespace tpinfer {
namespace {  // NOLINT: one copy for each instruction set

struct Avx512 {
  using Vector = __m512;
  static constexpr int kLanes = 16;

  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector load(const void* at) { return _mm512_loadu_ps(at); }
  static void store(float* at, Vector v) { _mm512_storeu_ps(at, v); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static __m512d round_to_grid(__m256 sums) {
    const __m512d magic = _mm512_set1_pd(0x1.8p24);  // kGridMagic
    return _mm512_sub_pd(_mm512_add_pd(_mm512_cvtps_pd(sums), magic), magic);
  }
  static Vector either(Vector a, Vector b) { return _mm512_or_ps(a, b); }
  /// No number is 2 or more, infinite or NaN: these have the highest bit of the exponent.
  static bool small(Vector bits) {
    return _mm512_test_epi32_mask(_mm512_castps_si512(bits), _mm512_set1_epi32(1 << 30)) == 0;
  }
  static void count_on_grid(Vector sums, bool first, std::int32_t* counts) {
    const __m512i steps = _mm512_cvtps_epi32(_mm512_mul_ps(sums, _mm512_set1_ps(0x1p28F)));
    _mm512_store_si512(counts, first ? steps : _mm512_add_epi32(_mm512_load_si512(counts), steps));
  }
  /// to = from + counts * 2^-28.
  static void add_counts(const std::int32_t* counts, const double* from, double* to) {
    const __m512d step = _mm512_set1_pd(0x1p-28);
    const auto half = [&](int at) {
      const __m512d steps = _mm512_cvtepi32_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(counts + at)));
      _mm512_storeu_pd(to + at, _mm512_fmadd_pd(steps, step, _mm512_loadu_pd(from + at)));
    };
    half(0);
    half(8);
  }
  static Vector times(Vector a, float b) { return _mm512_mul_ps(a, _mm512_set1_ps(b)); }
  /// to = from + sums rounded to the grid.
  static void add_on_grid(Vector sums, const double* from, double* to) {
    const __m512d low = round_to_grid(_mm512_castps512_ps256(sums));
    const __m512d high = round_to_grid(_mm512_extractf32x8_ps(sums, 1));
    _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(from), low));
    _mm512_storeu_pd(to + 8, _mm512_add_pd(_mm512_loadu_pd(from + 8), high));
  }
};

}  // namespace
}  // namespace tpinfer
