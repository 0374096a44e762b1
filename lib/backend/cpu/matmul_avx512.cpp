#include "backend/cpu/matmul_avx512.hpp"

#include "backend/cpu/matmul_tile.hpp"

namespace tpinfer {
namespace {

__m512 broadcast(const std::byte* x) { return _mm512_set1_ps(*reinterpret_cast<const float*>(x)); }

/// acc += w[v] * x[r] for the vectors of one channel.
template <int R, int V>
void add_products(__m512 (&acc)[R][V], const __m512 (&w)[V], const auto& x_of, int channel) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const __m512 x = broadcast(x_of(r) + 4 * channel);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) acc[r][v] = _mm512_fmadd_ps(w[v], x, acc[r][v]);
  }
}

struct Float32 {
  using Isa = Avx512;
  static constexpr int kStep = 1;
  static constexpr int kStepBytes = 64;
  static constexpr int kInput = 4;

  template <int R, int V>
  static void step(__m512 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    __m512 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = Avx512::load(weights_of(v));
    add_products(acc, w, x_of, 0);
  }
};

struct Float16 {
  using Isa = Avx512;
  static constexpr int kStep = 1;
  static constexpr int kStepBytes = 32;
  static constexpr int kInput = 4;

  template <int R, int V>
  static void step(__m512 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    __m512 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      w[v] = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(weights_of(v))));
    add_products(acc, w, x_of, 0);
  }
};

/// A bfloat16 is the upper half of a float32: the pair (a, b) of a 32-bit lane becomes a by a shift, b by a mask.
struct BFloat16 {
  using Isa = Avx512;
  static constexpr int kStep = 2;
  static constexpr int kStepBytes = 64;
  static constexpr int kInput = 4;

  template <int R, int V>
  static void last(__m512 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    __m512 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_load_si512(weights_of(v)), 16));
    add_products(acc, w, x_of, 0);
  }
  template <int R, int V>
  static void step(__m512 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    last<R, V>(acc, weights_of, x_of);
    const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
    __m512 w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = _mm512_castsi512_ps(_mm512_and_si512(_mm512_load_si512(weights_of(v)), mask));
    add_products(acc, w, x_of, 1);
  }
};

}  // namespace

const MatmulKernels kAvx512Matmul = {
    .float32 = {.run = run_tiles<Float32, 2, 12, 4>, .tile_rows = 12, .panels = 4},
    .float16 = {.run = run_tiles<Float16, 2, 12, 4>, .tile_rows = 12, .panels = 4},
    .bfloat16 = {.run = run_tiles<BFloat16, 2, 12, 4>, .tile_rows = 12, .panels = 4},
};

}  // namespace tpinfer
