#include <immintrin.h>

#include "backend/cpu/matmul_tile.hpp"

namespace tpinfer {
namespace {

struct Avx2 {
  using Vector = __m256;
  static constexpr int kLanes = 8;

  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector load(const void* at) { return _mm256_loadu_ps(static_cast<const float*>(at)); }
  static void store(float* at, Vector v) { _mm256_storeu_ps(at, v); }
  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static __m256d round_to_grid(__m128 sums) {
    const __m256d magic = _mm256_set1_pd(0x1.8p24);  // kGridMagic
    return _mm256_sub_pd(_mm256_add_pd(_mm256_cvtps_pd(sums), magic), magic);
  }
  static Vector either(Vector a, Vector b) { return _mm256_or_ps(a, b); }
  /// No number is 2 or more, infinite or NaN: these have the highest bit of the exponent.
  static bool small(Vector bits) {
    return _mm256_testz_si256(_mm256_castps_si256(bits), _mm256_set1_epi32(1 << 30)) != 0;
  }
  static void count_on_grid(Vector sums, bool first, std::int32_t* counts) {
    auto* to = reinterpret_cast<__m256i*>(counts);
    const __m256i steps = _mm256_cvtps_epi32(_mm256_mul_ps(sums, _mm256_set1_ps(0x1p28F)));
    _mm256_store_si256(to, first ? steps : _mm256_add_epi32(_mm256_load_si256(to), steps));
  }
  /// to = from + counts * 2^-28.
  static void add_counts(const std::int32_t* counts, const double* from, double* to) {
    const __m256d step = _mm256_set1_pd(0x1p-28);
    const auto half = [&](int at) {
      const __m256d steps = _mm256_cvtepi32_pd(_mm_load_si128(reinterpret_cast<const __m128i*>(counts + at)));
      _mm256_storeu_pd(to + at, _mm256_fmadd_pd(steps, step, _mm256_loadu_pd(from + at)));
    };
    half(0);
    half(4);
  }
  static Vector times(Vector a, float b) { return _mm256_mul_ps(a, _mm256_set1_ps(b)); }
  /// to = from + sums rounded to the grid.
  static void add_on_grid(Vector sums, const double* from, double* to) {
    const __m256d low = round_to_grid(_mm256_castps256_ps128(sums));
    const __m256d high = round_to_grid(_mm256_extractf128_ps(sums, 1));
    _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(from), low));
    _mm256_storeu_pd(to + 4, _mm256_add_pd(_mm256_loadu_pd(from + 4), high));
  }
};

const __m256i* vector_at(const std::byte* at) { return reinterpret_cast<const __m256i*>(at); }

/// acc += w[v] * x[r] for the vectors of one channel.
template <int R, int V>
void add_products(__m256 (&acc)[R][V], const __m256 (&w)[V], const auto& x_of, int channel) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const __m256 x = _mm256_broadcast_ss(reinterpret_cast<const float*>(x_of(r) + 4 * channel));
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) acc[r][v] = _mm256_fmadd_ps(w[v], x, acc[r][v]);
  }
}

struct Float32 {
  using Isa = Avx2;
  static constexpr int kStep = 1;
  static constexpr int kStepBytes = 32;
  static constexpr int kInput = 4;

  template <int R, int V>
  static void step(__m256 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    __m256 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = Avx2::load(weights_of(v));
    add_products(acc, w, x_of, 0);
  }
};

struct Float16 {
  using Isa = Avx2;
  static constexpr int kStep = 1;
  static constexpr int kStepBytes = 16;
  static constexpr int kInput = 4;

  template <int R, int V>
  static void step(__m256 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    __m256 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(weights_of(v))));
    add_products(acc, w, x_of, 0);
  }
};

/// A bfloat16 is the upper half of a float32: the pair (a, b) of a 32-bit lane becomes a by a shift, b by a mask.
struct BFloat16 {
  using Isa = Avx2;
  static constexpr int kStep = 2;
  static constexpr int kStepBytes = 32;
  static constexpr int kInput = 4;

  template <int R, int V>
  static void last(__m256 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    __m256 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      w[v] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_load_si256(vector_at(weights_of(v))), 16));
    add_products(acc, w, x_of, 0);
  }
  template <int R, int V>
  static void step(__m256 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    last<R, V>(acc, weights_of, x_of);
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
    __m256 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      w[v] = _mm256_castsi256_ps(_mm256_and_si256(_mm256_load_si256(vector_at(weights_of(v))), mask));
    add_products(acc, w, x_of, 1);
  }
};

}  // namespace

// Sixteen registers: half a panel (two vectors) of six rows.
const MatmulKernels kAvx2Matmul = {
    .float32 = {.run = run_tiles<Float32, 2, 6, 2>, .tile_rows = 6, .panels = 2},
    .float16 = {.run = run_tiles<Float16, 2, 6, 2>, .tile_rows = 6, .panels = 2},
    .bfloat16 = {.run = run_tiles<BFloat16, 2, 6, 2>, .tile_rows = 6, .panels = 2},
};

}  // namespace tpinfer
