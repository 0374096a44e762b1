#pragma once

#include <cstdint>

namespace tpinfer {
namespace {

/// 16 float32 lanes in plain C++: the reference. Products and sums are rounded apart here; the vector sets fuse them.
struct Lanes {
  float v[16];
};

inline constexpr int kScoreTile = 2;  ///< accumulators of the score kernel: query vectors times position tiles
inline constexpr int kValueTile = 2;  ///< accumulators of the value kernel: query vectors times 16 channels

template <class F>
inline Lanes each_lane(F f) {
  Lanes r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}

inline float float_of_bits(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline std::uint32_t bits_of_float(float x) { return __builtin_bit_cast(std::uint32_t, x); }

inline Lanes set1(float x) {
  return each_lane([=](int) { return x; });
}
inline Lanes load(const float* p) {
  return each_lane([=](int i) { return p[i]; });
}
/// The first n lanes; the rest is 0.
inline Lanes load_first(const float* p, int n) {
  return each_lane([=](int i) { return i < n ? p[i] : 0.0F; });
}
inline void store(float* p, const Lanes& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
inline void store_first(float* p, const Lanes& a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}

inline Lanes add(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
inline Lanes sub(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
inline Lanes mul(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
inline Lanes div(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
/// a * b + c
inline Lanes mul_add(const Lanes& a, const Lanes& b, const Lanes& c) {
  return each_lane([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
/// a where a > b, otherwise b (also where one is NaN).
inline Lanes max(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes min(const Lanes& a, const Lanes& b) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Lanes absolute(const Lanes& a) {
  return each_lane([&](int i) { return float_of_bits(bits_of_float(a.v[i]) & 0x7fffffffU); });
}
inline Lanes copy_sign(const Lanes& magnitude, const Lanes& sign) {
  return each_lane([&](int i) {
    return float_of_bits((bits_of_float(magnitude.v[i]) & 0x7fffffffU) | (bits_of_float(sign.v[i]) & 0x80000000U));
  });
}
/// x where a < b, otherwise y.
inline Lanes where_less(const Lanes& a, const Lanes& b, const Lanes& x, const Lanes& y) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}
/// x where x is NaN, otherwise y.
inline Lanes nan_or(const Lanes& x, const Lanes& y) {
  return each_lane([&](int i) { return x.v[i] != x.v[i] ? x.v[i] : y.v[i]; });
}
/// a in lanes [first, last), `other` elsewhere.
inline Lanes keep_lanes(const Lanes& a, int first, int last, float other) {
  return each_lane([&](int i) { return i >= first && i < last ? a.v[i] : other; });
}
/// a * 2^n for whole n in [-252, 254]; rounded once.
inline Lanes times_power_of_two(const Lanes& a, const Lanes& n) {
  return each_lane([&](int i) {
    const int power = static_cast<int>(n.v[i]);
    const int half = power >> 1;
    return a.v[i] * float_of_bits(static_cast<std::uint32_t>(half + 127) << 23) *
           float_of_bits(static_cast<std::uint32_t>(power - half + 127) << 23);
  });
}

inline float sum_of_lanes(const Lanes& a) {
  float t[8];
  for (int i = 0; i < 8; ++i) t[i] = a.v[i] + a.v[i + 8];
  for (int i = 0; i < 4; ++i) t[i] += t[i + 4];
  return (t[0] + t[2]) + (t[1] + t[3]);
}
inline float max_of_lanes(const Lanes& a) {
  float r = a.v[0];
  for (int i = 1; i < 16; ++i) r = r > a.v[i] ? r : a.v[i];
  return r;
}

inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t rest = bits & 0x7fffU;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  // Moves the exponent by 112 with a product, which also makes subnormal halves right; infinity and NaN apart.
  const float moved = float_of_bits(rest << 13) * 0x1p112F;
  const std::uint32_t special = (rest << 13) | 0x7f800000U;
  return float_of_bits((rest >= 0x7c00U ? special : bits_of_float(moved)) | sign);
}
inline Lanes load_half(const std::uint16_t* p) {
  return each_lane([=](int i) { return half_to_float(p[i]); });
}
/// 16 pairs of bfloat16: the first and the second halves of each.
inline void load_bfloat16_pairs(const std::uint16_t* p, Lanes& first, Lanes& second) {
  for (int i = 0; i < 16; ++i) {
    first.v[i] = float_of_bits(static_cast<std::uint32_t>(p[2 * i]) << 16);
    second.v[i] = float_of_bits(static_cast<std::uint32_t>(p[2 * i + 1]) << 16);
  }
}
inline std::uint16_t to_bfloat16(float x) {
  const std::uint32_t bits = bits_of_float(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
inline Lanes load_bfloat16(const std::uint16_t* p) {
  return each_lane([=](int i) { return float_of_bits(static_cast<std::uint32_t>(p[i]) << 16); });
}
/// Each lane as the nearest bfloat16, ties to even.
inline Lanes rounded_to_bfloat16(const Lanes& a) {
  return each_lane([&](int i) { return float_of_bits(static_cast<std::uint32_t>(to_bfloat16(a.v[i])) << 16); });
}
/// The first n lanes, rounded to nearest, ties to even.
inline void store_bfloat16(std::uint16_t* p, const Lanes& a, int n = 16) {
  for (int i = 0; i < n; ++i) p[i] = to_bfloat16(a.v[i]);
}

}  // namespace
}  // namespace tpinfer
