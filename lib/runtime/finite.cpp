#include "runtime/finite.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tpinfer {
namespace {

// NaN and infinity are the values with all bits of the exponent set.
template <class Bits>
const std::byte* scan(const std::byte* data, std::size_t count, Bits exponent) {
  constexpr std::size_t kBlock = 4096;  // one branch a block, so that the loop inside becomes vector code
  const auto bad = [&](std::size_t i) {
    Bits bits;
    std::memcpy(&bits, data + i * sizeof bits, sizeof bits);
    return static_cast<Bits>(bits & exponent) == exponent;
  };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, count);
    bool any = false;
    for (std::size_t i = begin; i < end; ++i) any |= bad(i);
    for (std::size_t i = begin; any && i < end; ++i)
      if (bad(i)) return data + i * sizeof(Bits);
  }
  return nullptr;
}

const std::byte* scan(const std::byte* data, std::size_t count, DType dtype) {
  if (dtype == DType::float32) return scan<std::uint32_t>(data, count, 0x7f800000U);
  return scan<std::uint16_t>(data, count, dtype == DType::float16 ? 0x7c00 : 0x7f80);
}

}  // namespace

const std::byte* find_non_finite(const StoredMatrix& part) {
  const auto cols = static_cast<std::size_t>(part.cols);
  if (part.row_stride == part.cols * static_cast<std::int64_t>(dtype_size(part.dtype)))
    return scan(part.data, static_cast<std::size_t>(part.rows) * cols, part.dtype);
  for (std::int64_t row = 0; row < part.rows; ++row)
    if (const std::byte* found = scan(part.data + row * part.row_stride, cols, part.dtype)) return found;
  return nullptr;
}

}  // namespace tpinfer
