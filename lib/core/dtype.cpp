#include "core/dtype.hpp"

#include <array>
#include <cstring>

namespace tpinfer {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::string_view safetensors;
  std::size_t size;
};

constexpr std::array<Entry, 15> kTypes{{
    {DType::float32, "float32", "F32", 4},
    {DType::float16, "float16", "F16", 2},
    {DType::bfloat16, "bfloat16", "BF16", 2},
    {DType::float64, "float64", "F64", 8},
    {DType::int64, "int64", "I64", 8},
    {DType::int32, "int32", "I32", 4},
    {DType::int16, "int16", "I16", 2},
    {DType::int8, "int8", "I8", 1},
    {DType::uint64, "uint64", "U64", 8},
    {DType::uint32, "uint32", "U32", 4},
    {DType::uint16, "uint16", "U16", 2},
    {DType::uint8, "uint8", "U8", 1},
    {DType::boolean, "bool", "BOOL", 1},
    {DType::float8_e4m3, "float8_e4m3fn", "F8_E4M3", 1},
    {DType::float8_e5m2, "float8_e5m2", "F8_E5M2", 1},
}};

const Entry& entry(DType dtype) noexcept { return kTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t dtype_size(DType dtype) noexcept { return entry(dtype).size; }
std::string_view dtype_name(DType dtype) noexcept { return entry(dtype).name; }
std::string_view safetensors_name(DType dtype) noexcept { return entry(dtype).safetensors; }

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "float32" || name == "fp32" || name == "float") return DType::float32;
  if (name == "float16" || name == "fp16" || name == "half") return DType::float16;
  if (name == "bfloat16" || name == "bf16") return DType::bfloat16;
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) noexcept {
  for (const Entry& e : kTypes)
    if (e.safetensors == name) return e.dtype;
  return std::nullopt;
}

float float16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  if (fraction == 0) return std::bit_cast<float>(sign);
  const int shift = std::countl_zero(fraction) - 21;  // a subnormal half is a normal float
  fraction = (fraction << shift) & 0x3ffU;
  return std::bit_cast<float>(sign | (static_cast<std::uint32_t>(113 - shift) << 23) | (fraction << 13));
}

std::uint16_t float_to_float16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to 65536 or more
  if (magnitude < 0x33000001U) return sign;                                         // rounds to zero
  std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
  const int exponent = static_cast<int>(magnitude >> 23) - 112;
  const int shift = exponent > 0 ? 13 : 14 - exponent;  // a result below 2^-14 is a subnormal half
  const std::uint32_t half = 1U << (shift - 1);
  const std::uint32_t rest = mantissa & ((1U << shift) - 1);
  mantissa >>= shift;
  if (rest > half || (rest == half && (mantissa & 1U))) ++mantissa;
  if (exponent > 0)
    return static_cast<std::uint16_t>(sign + (static_cast<std::uint32_t>(exponent - 1) << 10) + mantissa);
  return static_cast<std::uint16_t>(sign + mantissa);
}

float load_element(const std::byte* data, DType dtype, std::size_t index) noexcept {
  if (dtype == DType::float32) {
    float value;
    std::memcpy(&value, data + 4 * index, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, data + 2 * index, 2);
  return dtype == DType::bfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

}  // namespace tpinfer
