#pragma once

#include <cstdint>
#include <span>

namespace tpinfer {

/// Loops over a whole row of logits. Sums have 16 lanes, lane = place mod 16, added in ascending lane at the end: one
/// order whatever the vector width.

struct RowMaximum {
  float value = 0;
  bool finite = true;  ///< no NaN, no +infinity, something above -infinity
};
RowMaximum row_maximum(std::span<const float> row) noexcept;

/// Sum of e^(row[i] - best), each to about 1e-7 relative.
double sum_of_exponentials(std::span<const float> row, float best) noexcept;

/// row[i] = float(row[i] / divisor), the quotient in float64.
void divide_row(std::span<float> row, double divisor) noexcept;

/// values[i] = e^values[i] to a few 1e-16, for values <= 0, and 0 below -708. -> their sum
double replace_by_exponentials(std::span<double> values) noexcept;

/// values[i] /= divisor.
void divide_all(std::span<double> values, double divisor) noexcept;

/// row[i] becomes -infinity where known[i] is 0; `known` may be shorter.
void ban_unknown(std::span<float> row, std::span<const std::uint8_t> known) noexcept;

/// Places that any_above() looks at.
inline constexpr std::size_t kBlockOfRow = 16;

/// Whether one of kBlockOfRow floats is above the limit.
inline bool any_above(const float* block, float limit) noexcept {
  std::int32_t any = 0;
  for (std::size_t i = 0; i < kBlockOfRow; ++i) any |= block[i] > limit ? 1 : 0;
  return any != 0;
}

}  // namespace tpinfer
