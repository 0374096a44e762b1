#pragma once

#include "cuda_runtime.h"

/// IEEE half precision: conversions only, since kernels compute in float32.
struct __half {
  std::uint16_t bits;
  __half() = default;
  __half(float value) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(&bits, &half, sizeof bits);
  }
  operator float() const {  // without a call of the compiler's library: kernels live on this
    const std::uint32_t magnitude = bits & 0x7FFFU;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const float wide = cuda_emulation_bits<float>(magnitude << 13) * 0x1p112F;  // exponents are 112 apart
    const std::uint32_t whole =
        magnitude >= 0x7C00U ? (magnitude << 13) | 0x7F800000U : cuda_emulation_bits<std::uint32_t>(wide);
    return cuda_emulation_bits<float>(whole | sign);
  }
};
using half = __half;
struct alignas(4) __half2 {
  __half x, y;
};
using half2 = __half2;

inline float __half2float(__half value) { return static_cast<float>(value); }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 value) { return {__half(value.x), __half(value.y)}; }
inline float2 __half22float2(__half2 value) { return {static_cast<float>(value.x), static_cast<float>(value.y)}; }
inline float __low2float(__half2 value) { return static_cast<float>(value.x); }
inline float __high2float(__half2 value) { return static_cast<float>(value.y); }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) {
  __half result;
  result.bits = bits;
  return result;
}
