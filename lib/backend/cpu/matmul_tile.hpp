#pragma once

// Tiles of outputs in registers, for the vectors of one instruction set. Everything is in an unnamed namespace: each
// file that includes this gets its own copy, compiled for its own processor.

#include <utility>

#include "backend/cpu/matmul_kernel.hpp"

namespace tpinfer {
namespace {  // NOLINT: see above

/// Bytes of a panel's weights that one step takes.
template <class Kernel>
constexpr std::int64_t kStepOfPanel = Kernel::kStepBytes*(32 / Kernel::Isa::kLanes);

/// R rows x V vectors of outputs. `Kernel` gives:
///   Isa      Vector, kLanes, zero, load, store, add, times(vector, scalar), either(a, b) (their bits together),
///            add_on_grid(sums, from, to) and the faster way for leaf sums below 2: small(either of them),
///            count_on_grid(sums, first, counts) and add_counts(counts, from, to)
///   kStep    channels that a step takes (1, or 2 for pairs), kStepBytes: bytes of one vector's weights in a step
///   kInput   bytes of an element of x
///   step<R, V>(acc, weights(v), x(r)): adds the products of kStep channels
///   last<R, V>(...): the same for the first channel of a pair alone
template <class Kernel, int R, int V>
struct Tile {
  using Isa = typename Kernel::Isa;
  using Vector = typename Isa::Vector;
  static constexpr int kPerPanel = 32 / Isa::kLanes;  ///< vectors in a panel

  /// Outputs [row, row + R) x [col, col + V vectors). The tile fetches `share` bytes of the next weights in each step,
  /// the ones after those of the `tile` tiles before it.
  static void run(const MatmulBlock& b, std::int64_t row, std::int64_t col, std::int64_t tile, std::int64_t share) {
    if (b.totals != nullptr) return run_totals(b, row, col, tile, share);
    if (b.scales != nullptr) return run_scaled(b, row, col, tile, share);
    float* sums = b.sums + row * b.stride + col;
    Vector acc[R][V];
    if (b.first)
      each([&](int r, int v) { acc[r][v] = Isa::zero(); });
    else
      each([&](int r, int v) { acc[r][v] = Isa::load(sums + r * b.stride + v * Isa::kLanes); });
    for (std::int64_t i = 0; i < b.piece_count; ++i) accumulate(b, b.pieces[i], row, col, tile, share, acc);
    each([&](int r, int v) {
      const Vector sum = b.bias != nullptr ? Isa::add(acc[r][v], Isa::load(b.bias + col + v * Isa::kLanes)) : acc[r][v];
      Isa::store(sums + r * b.stride + v * Isa::kLanes, sum);
    });
  }

  /// Sums that are scaled and added to rows of their own, in float32.
  static void run_scaled(const MatmulBlock& b, std::int64_t row, std::int64_t col, std::int64_t tile,
                         std::int64_t share) {
    Vector acc[R][V];
    each([&](int r, int v) { acc[r][v] = Isa::zero(); });
    for (std::int64_t i = 0; i < b.piece_count; ++i) accumulate(b, b.pieces[i], row, col, tile, share, acc);
    each([&](int r, int v) {
      float* out = b.sums + row_of(b, row + r) * b.stride + col + v * Isa::kLanes;
      const Vector sum = Isa::times(acc[r][v], b.scales[row + r]);
      Isa::store(out, b.first ? sum : Isa::add(Isa::load(out), sum));
    });
  }

  /// Exact sums. A leaf sum below 2 is a number of grid steps that fits in 30 bits, and four of them in 32: they are
  /// added as integers, at less than half the cost of rounding in float64, and go to the totals at every fourth piece.
  static void run_totals(const MatmulBlock& b, std::int64_t row, std::int64_t col, std::int64_t tile,
                         std::int64_t share) {
    alignas(64) std::int32_t counts[R][V * Isa::kLanes];
    // Rows of b.totals are often a power of two apart and then share a few cache lines: between pieces they lie here.
    alignas(64) double totals[R][V * Isa::kLanes];
    alignas(64) static constexpr double kZeros[Isa::kLanes] = {};
    double* out[R];
    for (int r = 0; r < R; ++r) out[r] = b.totals + row_of(b, row + r) * b.stride + col;
    for (int r = 0; r < R; ++r)  // they are needed after the first pieces
      for (int i = 0; i < V * Isa::kLanes; i += 8) __builtin_prefetch(out[r] + i, 1, 2);
    bool begun = false;  // there is something in `totals`
    int counted = 0;     // pieces in `counts`
    // add(r, v, from, to) for all vectors; `last`: they go home
    const auto add_up = [&](bool last, const auto& add) {
      each([&](int r, int v) {
        const int at = v * Isa::kLanes;
        add(r, v, begun ? totals[r] + at : b.first ? kZeros : out[r] + at, last ? out[r] + at : totals[r] + at);
      });
      begun = true;
    };
    for (std::int64_t i = 0; i < b.piece_count; ++i) {
      Vector acc[R][V];
      each([&](int r, int v) { acc[r][v] = Isa::zero(); });
      accumulate(b, b.pieces[i], row, col, tile, share, acc);
      if (b.scales != nullptr) each([&](int r, int v) { acc[r][v] = Isa::times(acc[r][v], b.scales[row + r]); });
      Vector all = Isa::zero();
      each([&](int r, int v) { all = Isa::either(all, acc[r][v]); });
      const bool small = Isa::small(all);
      const bool last = i + 1 == b.piece_count;
      if (small) {
        each([&](int r, int v) { Isa::count_on_grid(acc[r][v], counted == 0, counts[r] + v * Isa::kLanes); });
        ++counted;
      }
      if (counted > 0 && (!small || counted == kCounted || last)) {
        add_up(small && last, [&](int r, int v, const double* from, double* to) {
          Isa::add_counts(counts[r] + v * Isa::kLanes, from, to);
        });
        counted = 0;
      }
      if (!small)
        add_up(last, [&](int r, int v, const double* from, double* to) { Isa::add_on_grid(acc[r][v], from, to); });
    }
  }

 private:
  static constexpr int kCounted = 4;  ///< pieces whose counts fit together in 32 bits

  static std::int64_t row_of(const MatmulBlock& b, std::int64_t row) {
    return b.rows_to != nullptr ? b.rows_to[row] : row;
  }

  /// Where vector v's weights of a step lie, from the first one's.
  static constexpr std::int64_t offset(int v, std::int64_t panel_bytes) {
    return v / kPerPanel * panel_bytes + v % kPerPanel * Kernel::kStepBytes;
  }

  static void each(const auto& body) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) body(r, v);
  }

  static void accumulate(const MatmulBlock& b, const MatmulPiece& piece, std::int64_t row, std::int64_t col,
                         std::int64_t tile, std::int64_t share, Vector (&acc)[R][V]) {
    constexpr std::int64_t kStepBytes = kStepOfPanel<Kernel>;
    const std::int64_t panel_bytes = b.panel_bytes;
    const std::int64_t panel = col / 32 * panel_bytes + piece.offset / Kernel::kStep * kStepBytes;
    const std::byte* weights = b.weights + panel + col % 32 / Isa::kLanes * Kernel::kStepBytes;
    const std::byte* x = b.x + row * b.x_stride + piece.col * Kernel::kInput;
    const std::int64_t stride = b.x_stride;
    const auto weights_of = [&](int v) { return weights + offset(v, panel_bytes); };
    const auto x_of = [&](int r) { return x + r * stride; };
    const std::byte* next = b.next + panel + piece.channels / Kernel::kStep * share * tile;
    for (std::int64_t k = 0; k + Kernel::kStep <= piece.channels; k += Kernel::kStep) {
#pragma GCC unroll 4
      for (int p = 0; p < (V + kPerPanel - 1) / kPerPanel; ++p) {
        __builtin_prefetch(next + p * panel_bytes, 0, 2);
        if (kStepBytes > 64) __builtin_prefetch(next + p * panel_bytes + share / 2, 0, 2);
      }
      next += share;
      Kernel::template step<R, V>(acc, weights_of, x_of);
      weights += kStepBytes;
      x += Kernel::kStep * Kernel::kInput;
    }
    if constexpr (Kernel::kStep == 2)
      if (piece.channels % 2 != 0) Kernel::template last<R, V>(acc, weights_of, x_of);
  }
};

/// All rows x [col, 32 panels) in tiles of V vectors and up to kMaxRows rows, as even as possible.
template <class Kernel, int V, int kMaxRows>
struct Tiles {
  using Run = void (*)(const MatmulBlock&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);

  template <int... R>
  static Run tile(std::int64_t rows, std::integer_sequence<int, R...>) {
    static constexpr Run kRuns[] = {Tile<Kernel, R + 1, V>::run...};
    return kRuns[rows - 1];
  }

  static void run(const MatmulBlock& b) {
    constexpr std::int64_t kWidth = V * Kernel::Isa::kLanes;
    const std::int64_t groups = (b.rows + kMaxRows - 1) / kMaxRows;
    const std::int64_t tiles = groups * (32 / kWidth);  // on one panel
    const std::int64_t share = (kStepOfPanel<Kernel> + tiles - 1) / tiles;
    for (std::int64_t panel = 0; panel < b.panels; ++panel)
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t group = t / (32 / kWidth);
        const std::int64_t row = group * b.rows / groups;
        const Run one = tile((group + 1) * b.rows / groups - row, std::make_integer_sequence<int, kMaxRows>());
        one(b, row, panel * 32 + t % (32 / kWidth) * kWidth, t, share);
      }
  }
};

/// One row goes over kTogether panels at a time for enough independent sums; more rows over V vectors.
template <class Kernel, int V, int kMaxRows, int kTogether>
void run_tiles(const MatmulBlock& b) {
  if (b.rows == 1 && b.panels == kTogether)
    Tile<Kernel, 1, kTogether * 32 / Kernel::Isa::kLanes>::run(b, 0, 0, 0, kStepOfPanel<Kernel>);
  else
    Tiles<Kernel, V, kMaxRows>::run(b);
}

}  // namespace
}  // namespace tpinfer
