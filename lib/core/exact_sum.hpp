#pragma once

#include <cstdint>
#include <vector>

namespace tpinfer {

/// Version of the order of every sum. It changes whenever one of them changes; results of two versions need not be
/// bitwise equal.
inline constexpr int kNumericVersion = 2;

/// Leaf sums are rounded to multiples of 2^-28 and added in float64. While totals stay below kExactLimit no such
/// addition rounds, so that ranks, experts and leaves may be added in any order with the same bits.
inline constexpr double kGrid = 0x1p-28;
inline constexpr double kGridMagic = 0x1.8p24;
inline constexpr double kExactLimit = 0x1p25;

/// Nearest multiple of 2^-28, ties to even (for |x| < 2^23; above, to float64's own precision). NaN and infinity pass
/// through.
inline double round_to_grid(float x) noexcept {
  return (static_cast<double>(x) + kGridMagic) - kGridMagic;  // needs strict IEEE arithmetic: no -ffast-math
}

/// KV positions are attended to in blocks of this many absolute positions, whatever the pages of the cache are.
inline constexpr std::int64_t kAttentionBlock = 256;

/// Rank counts whose cuts are leaf borders: at these counts answers are bitwise the same.
inline constexpr int kReproducibleRanks[] = {1, 2, 3, 4, 6, 8};

}  // namespace tpinfer
