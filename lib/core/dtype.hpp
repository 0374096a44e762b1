#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tpinfer {

/// Element types that a safetensors file may hold. Weights are one of the first three; the rest occurs in buffers that
/// are not loaded.
enum class DType : std::uint8_t {
  float32,
  float16,
  bfloat16,
  float64,
  int64,
  int32,
  int16,
  int8,
  uint64,
  uint32,
  uint16,
  uint8,
  boolean,
  float8_e4m3,
  float8_e5m2,
};

/// Bytes of one element.
std::size_t dtype_size(DType dtype) noexcept;
/// True for float32, float16 and bfloat16: the types that weights may have.
constexpr bool is_weight_type(DType dtype) noexcept { return dtype <= DType::bfloat16; }
/// "float32", "bfloat16", ...: as job files and config.json spell it.
std::string_view dtype_name(DType dtype) noexcept;
/// From config.json and job files: float32, fp32, float, float16, fp16, half, bfloat16, bf16, with or without "torch.";
/// nothing for others.
std::optional<DType> dtype_from_name(std::string_view name) noexcept;
/// From a safetensors header: F32, BF16, I64, ...; nothing for others.
std::optional<DType> dtype_from_safetensors(std::string_view name) noexcept;
/// "F32", "BF16", ...
std::string_view safetensors_name(DType dtype) noexcept;

inline float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
/// Round to nearest, ties to even; NaN stays NaN.
inline std::uint16_t float_to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
float float16_to_float(std::uint16_t bits) noexcept;
/// Round to nearest, ties to even; too large becomes infinity; NaN stays NaN.
std::uint16_t float_to_float16(float value) noexcept;

/// Element `index` of `data` as float32; dtype must be a weight type.
float load_element(const std::byte* data, DType dtype, std::size_t index) noexcept;

}  // namespace tpinfer
