#pragma once

#include "cuda_runtime.h"

/// bfloat16: conversions only (to nearest, ties to even), since kernels compute in float32.
struct __nv_bfloat16 {
  std::uint16_t bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float value) {
    std::uint32_t wide;
    std::memcpy(&wide, &value, sizeof wide);
    if (value != value)
      bits = 0x7FFF;
    else
      bits = static_cast<std::uint16_t>((wide + 0x7FFFU + ((wide >> 16) & 1U)) >> 16);
  }
  operator float() const {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) { return {__nv_bfloat16(value.x), __nv_bfloat16(value.y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 value) {
  return {static_cast<float>(value.x), static_cast<float>(value.y)};
}
inline float __low2float(__nv_bfloat162 value) { return static_cast<float>(value.x); }
inline float __high2float(__nv_bfloat162 value) { return static_cast<float>(value.y); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 result;
  result.bits = bits;
  return result;
}
