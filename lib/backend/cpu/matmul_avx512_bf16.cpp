#include <cstring>

#include "backend/cpu/matmul_avx512.hpp"
#include "backend/cpu/matmul_tile.hpp"

namespace tpinfer {
namespace {

/// One dot product instruction for each pair of channels. It flushes subnormal numbers and rounds in its own way, so
/// every tile of this set uses it and nothing else.
struct BFloat16Pairs {
  using Isa = Avx512;
  static constexpr int kStep = 2;
  static constexpr int kStepBytes = 64;
  static constexpr int kInput = 2;

  template <int R, int V>
  static void add_pairs(__m512 (&acc)[R][V], const auto& weights_of, const auto& pair_of) {
    __m512bh w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = reinterpret_cast<__m512bh>(_mm512_load_si512(weights_of(v)));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair_of(r)));
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], w[v], x);
    }
  }
  template <int R, int V>
  static void step(__m512 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    add_pairs<R, V>(acc, weights_of, [&](int r) {
      int pair;
      std::memcpy(&pair, x_of(r), sizeof pair);
      return pair;
    });
  }
  /// What stands after the last channel of x is another leaf's: zero instead.
  template <int R, int V>
  static void last(__m512 (&acc)[R][V], const auto& weights_of, const auto& x_of) {
    add_pairs<R, V>(acc, weights_of, [&](int r) {
      std::uint16_t single;
      std::memcpy(&single, x_of(r), sizeof single);
      return static_cast<int>(single);
    });
  }
};

}  // namespace

const MatmulKernel kAvx512Bf16Matmul = {
    .run = run_tiles<BFloat16Pairs, 2, 12, 4>, .tile_rows = 12, .panels = 4, .float_inputs = false};

}  // namespace tpinfer
