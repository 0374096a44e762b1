#include "runtime/row_loops.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/vector_clones.hpp"

namespace tpinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 16;

// exp(x) for x <= 0 to about 1e-7 relative, in plain arithmetic that is the same on every machine: 2^n times a
// polynomial (Cephes' expf).
inline float exp_negative(float x) noexcept {
  const float clamped = x < -87.0F ? -87.0F : x;
  const float n = std::floor(clamped * 1.44269504F + 0.5F);
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const float scale = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  const float power = p * scale;  // computed in any case, so that the loop needs no branch
  return x < -87.0F ? 0.0F : power;
}

// The same in float64: the remainder lies within half of log(2), where Taylor's series to the 13th power is exact to
// the last bit or two.
inline double exp_negative(double x) noexcept {
  constexpr double kLeast = -708.0;
  constexpr double kShift = 0x1.8p52;  // added, it rounds to a whole number, which is then in the lowest bits
  constexpr double kLog2Upper = 0x1.62e42fefa3800p-1;
  constexpr double kLog2Lower = 0x1.ef35793c76730p-45;
  const double clamped = x < kLeast ? kLeast : x;
  const double shifted = clamped * 0x1.71547652b82fep0 + kShift;
  const double n = shifted - kShift;
  const double r = (clamped - n * kLog2Upper) - n * kLog2Lower;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const std::int64_t power = std::bit_cast<std::int64_t>(shifted) - std::bit_cast<std::int64_t>(kShift);
  const auto scale = std::bit_cast<double>((power + 1023) << 52);
  const double result = p * scale;
  return x < kLeast ? 0.0 : result;
}

double sum_of(const std::array<double, kLanes>& lanes) noexcept {
  double total = 0;
  for (const double lane : lanes) total += lane;
  return total;
}

// The clones take plain pointers: functions of the library that are not inlined must not be built for one of them.
TPINFER_VECTOR_CLONES("avx2", "default") bool find_maximum(const float* row, std::size_t count, float* highest) {
  float best[kLanes];
  std::int32_t bad[kLanes];
  for (std::size_t j = 0; j < kLanes; ++j) {
    best[j] = -kInfinity;
    bad[j] = 0;
  }
  for (std::size_t i = 0; i < count; i += kLanes) {
    const std::size_t lanes = count - i < kLanes ? count - i : kLanes;
    if (lanes == kLanes)
      for (std::size_t j = 0; j < kLanes; ++j) {
        best[j] = best[j] < row[i + j] ? row[i + j] : best[j];
        bad[j] |= row[i + j] < kInfinity ? 0 : 1;  // 1 for NaN too
      }
    else
      for (std::size_t j = 0; j < lanes; ++j) {
        best[j] = best[j] < row[i + j] ? row[i + j] : best[j];
        bad[j] |= row[i + j] < kInfinity ? 0 : 1;
      }
  }
  std::int32_t any = 0;
  *highest = -kInfinity;
  for (std::size_t j = 0; j < kLanes; ++j) {
    any |= bad[j];
    *highest = *highest < best[j] ? best[j] : *highest;
  }
  return any == 0;
}

TPINFER_VECTOR_CLONES("avx2", "default")
void add_exponentials(const float* row, std::size_t count, float best, double* sums) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float e[kLanes];
    for (std::size_t j = 0; j < kLanes; ++j) e[j] = exp_negative(row[i + j] - best);
    for (std::size_t j = 0; j < kLanes; ++j) sums[j] += static_cast<double>(e[j]);
  }
  for (std::size_t j = 0; i + j < count; ++j) sums[j] += static_cast<double>(exp_negative(row[i + j] - best));
}

TPINFER_VECTOR_CLONES("avx2", "default") void exponentials(double* values, std::size_t count, double* sums) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) values[i + j] = exp_negative(values[i + j]);
    for (std::size_t j = 0; j < kLanes; ++j) sums[j] += values[i + j];
  }
  for (std::size_t j = 0; i + j < count; ++j) {
    values[i + j] = exp_negative(values[i + j]);
    sums[j] += values[i + j];
  }
}

TPINFER_VECTOR_CLONES("avx2", "default") void divide_floats(float* row, std::size_t count, double divisor) {
  for (std::size_t i = 0; i < count; ++i) row[i] = static_cast<float>(static_cast<double>(row[i]) / divisor);
}

TPINFER_VECTOR_CLONES("avx2", "default") void divide_doubles(double* values, std::size_t count, double divisor) {
  for (std::size_t i = 0; i < count; ++i) values[i] /= divisor;
}

TPINFER_VECTOR_CLONES("avx2", "default") void ban(float* row, const std::uint8_t* known, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) row[i] = known[i] == 0 ? -kInfinity : row[i];
}

}  // namespace

RowMaximum row_maximum(std::span<const float> row) noexcept {
  RowMaximum found;
  found.finite = find_maximum(row.data(), row.size(), &found.value) && found.value > -kInfinity;
  return found;
}

double sum_of_exponentials(std::span<const float> row, float best) noexcept {
  std::array<double, kLanes> sums{};
  add_exponentials(row.data(), row.size(), best, sums.data());
  return sum_of(sums);
}

void divide_row(std::span<float> row, double divisor) noexcept { divide_floats(row.data(), row.size(), divisor); }

double replace_by_exponentials(std::span<double> values) noexcept {
  std::array<double, kLanes> sums{};
  exponentials(values.data(), values.size(), sums.data());
  return sum_of(sums);
}

void divide_all(std::span<double> values, double divisor) noexcept {
  divide_doubles(values.data(), values.size(), divisor);
}

void ban_unknown(std::span<float> row, std::span<const std::uint8_t> known) noexcept {
  ban(row.data(), known.data(), std::min(row.size(), known.size()));
}

}  // namespace tpinfer
