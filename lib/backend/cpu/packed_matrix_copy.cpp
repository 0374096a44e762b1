#include "backend/cpu/packed_matrix_copy.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace tpinfer {
namespace {

constexpr std::int64_t kLanes = 32;
constexpr std::int64_t kTileCols = 64;

__attribute__((target("avx,f16c"))) void halves_to_floats_f16c(const std::uint16_t* in, std::int64_t count,
                                                               float* out) noexcept {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  for (; i < count; ++i) out[i] = float16_to_float(in[i]);
}

__attribute__((target("avx,f16c"))) void floats_to_halves_f16c(const float* in, std::int64_t count,
                                                               std::uint16_t* out) noexcept {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  for (; i < count; ++i) out[i] = float_to_float16(in[i]);
}

void halves_to_floats(const std::uint16_t* in, std::int64_t count, float* out) noexcept {
  if (__builtin_cpu_supports("f16c")) return halves_to_floats_f16c(in, count, out);
  for (std::int64_t i = 0; i < count; ++i) out[i] = float16_to_float(in[i]);
}

void floats_to_halves(const float* in, std::int64_t count, std::uint16_t* out) noexcept {
  if (__builtin_cpu_supports("f16c")) return floats_to_halves_f16c(in, count, out);
  for (std::int64_t i = 0; i < count; ++i) out[i] = float_to_float16(in[i]);
}

/// Elements `stride` bytes apart, next to each other; not through float, so that the bits of a NaN stay as they are.
template <class Element>
void gather(const std::byte* in, std::int64_t stride, std::int64_t count, void* out) noexcept {
  constexpr std::int64_t kSize = sizeof(Element);
  if (stride == kSize) {
    std::memcpy(out, in, static_cast<std::size_t>(count * kSize));
    return;
  }
  auto* to = static_cast<std::byte*>(out);
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * kSize, in + i * stride, kSize);
}

/// At most kTileCols elements from one type to another through float32, which holds each of them exactly.
void convert_some(const std::byte* in, DType from, std::int64_t stride, std::int64_t count, DType to, std::byte* out) {
  float floats[kTileCols];
  std::uint16_t halves[kTileCols];
  if (from == DType::float32) {
    gather<float>(in, stride, count, floats);
  } else {
    gather<std::uint16_t>(in, stride, count, halves);
    if (from == DType::float16)
      halves_to_floats(halves, count, floats);
    else
      for (std::int64_t i = 0; i < count; ++i) floats[i] = bfloat16_to_float(halves[i]);
  }
  if (to == DType::float32) {
    std::memcpy(out, floats, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  if (to == DType::float16)
    floats_to_halves(floats, count, halves);
  else
    for (std::int64_t i = 0; i < count; ++i) halves[i] = float_to_bfloat16(floats[i]);
  std::memcpy(out, halves, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
}

void convert(const std::byte* in, DType from, std::int64_t stride, std::int64_t count, DType to, std::byte* out) {
  if (from == to && from == DType::float32) return gather<float>(in, stride, count, out);
  if (from == to) return gather<std::uint16_t>(in, stride, count, out);
  const auto size = static_cast<std::int64_t>(dtype_size(to));
  for (std::int64_t i = 0; i < count; i += kTileCols)
    convert_some(in + i * stride, from, stride, std::min(kTileCols, count - i), to, out + i * size);
}

/// Rows of `Unit`s to units of 32 lanes: unit u of row l goes to to[u * 32 + l].
template <class Unit>
void transpose_any(const std::byte* from, std::int64_t row_stride, std::int64_t lanes, std::int64_t units,
                   std::byte* to) noexcept {
  constexpr auto kUnit = static_cast<std::int64_t>(sizeof(Unit));
  for (std::int64_t l = 0; l < lanes; ++l)
    for (std::int64_t u = 0; u < units; ++u)
      std::memcpy(to + (u * kLanes + l) * kUnit, from + l * row_stride + u * kUnit, sizeof(Unit));
}

const __m128i* vector_at(const std::byte* at) noexcept { return reinterpret_cast<const __m128i*>(at); }
__m128i* vector_at(std::byte* at) noexcept { return reinterpret_cast<__m128i*>(at); }

/// 4 x 4 units of 32 bits.
void transpose_tile32(const std::byte* from, std::int64_t row_stride, std::byte* to) noexcept {
  const __m128i r0 = _mm_loadu_si128(vector_at(from));
  const __m128i r1 = _mm_loadu_si128(vector_at(from + row_stride));
  const __m128i r2 = _mm_loadu_si128(vector_at(from + 2 * row_stride));
  const __m128i r3 = _mm_loadu_si128(vector_at(from + 3 * row_stride));
  const __m128i a = _mm_unpacklo_epi32(r0, r1);
  const __m128i b = _mm_unpacklo_epi32(r2, r3);
  const __m128i c = _mm_unpackhi_epi32(r0, r1);
  const __m128i d = _mm_unpackhi_epi32(r2, r3);
  _mm_store_si128(vector_at(to), _mm_unpacklo_epi64(a, b));
  _mm_store_si128(vector_at(to + 128), _mm_unpackhi_epi64(a, b));
  _mm_store_si128(vector_at(to + 256), _mm_unpacklo_epi64(c, d));
  _mm_store_si128(vector_at(to + 384), _mm_unpackhi_epi64(c, d));
}

/// 8 x 8 units of 16 bits.
void transpose_tile16(const std::byte* from, std::int64_t row_stride, std::byte* to) noexcept {
  __m128i a[8];
  __m128i b[8];
  for (int i = 0; i < 4; ++i) {
    const __m128i even = _mm_loadu_si128(vector_at(from + (2 * i) * row_stride));
    const __m128i odd = _mm_loadu_si128(vector_at(from + (2 * i + 1) * row_stride));
    a[i] = _mm_unpacklo_epi16(even, odd);      // channels 0 to 3 of two rows
    a[i + 4] = _mm_unpackhi_epi16(even, odd);  // channels 4 to 7
  }
  for (int half = 0; half < 8; half += 4) {
    b[half] = _mm_unpacklo_epi32(a[half], a[half + 1]);
    b[half + 1] = _mm_unpackhi_epi32(a[half], a[half + 1]);
    b[half + 2] = _mm_unpacklo_epi32(a[half + 2], a[half + 3]);
    b[half + 3] = _mm_unpackhi_epi32(a[half + 2], a[half + 3]);
  }
  for (int half = 0; half < 8; half += 4) {
    std::byte* out = to + half * 64;
    _mm_store_si128(vector_at(out), _mm_unpacklo_epi64(b[half], b[half + 2]));
    _mm_store_si128(vector_at(out + 64), _mm_unpackhi_epi64(b[half], b[half + 2]));
    _mm_store_si128(vector_at(out + 128), _mm_unpacklo_epi64(b[half + 1], b[half + 3]));
    _mm_store_si128(vector_at(out + 192), _mm_unpackhi_epi64(b[half + 1], b[half + 3]));
  }
}

/// All 32 lanes, in squares of 16 bytes; a cache line of each row at a time.
template <class Unit>
void transpose_full(const std::byte* from, std::int64_t row_stride, std::int64_t units, std::byte* to) noexcept {
  constexpr std::int64_t kUnit = sizeof(Unit);
  constexpr std::int64_t kSide = 16 / kUnit;
  constexpr std::int64_t kLine = 64 / kUnit;
  const std::int64_t whole = units / kSide * kSide;
  for (std::int64_t line = 0; line < whole; line += kLine)
    for (std::int64_t l = 0; l < kLanes; l += kSide)
      for (std::int64_t u = line; u < std::min(line + kLine, whole); u += kSide) {
        const std::byte* in = from + l * row_stride + u * kUnit;
        std::byte* out = to + (u * kLanes + l) * kUnit;
        if constexpr (kUnit == 4)
          transpose_tile32(in, row_stride, out);
        else
          transpose_tile16(in, row_stride, out);
      }
  transpose_any<Unit>(from + whole * kUnit, row_stride, kLanes, units - whole, to + whole * kLanes * kUnit);
}

template <class Unit>
void transpose(const std::byte* from, std::int64_t row_stride, std::int64_t lanes, std::int64_t units,
               std::byte* to) noexcept {
  if (lanes == kLanes)
    transpose_full<Unit>(from, row_stride, units, to);
  else
    transpose_any<Unit>(from, row_stride, lanes, units, to);
}

/// A block of rows of the compute type, elements of a row adjacent, into channels [channel, channel + cols) of a leaf.
void pack(const std::byte* from, std::int64_t row_stride, std::int64_t lanes, std::int64_t cols, DType dtype,
          std::int64_t lane, std::int64_t channel, std::byte* leaf) noexcept {
  const auto at = [&](std::int64_t k) {
    return leaf + panel_index(dtype, k, lane) * static_cast<std::size_t>(dtype_size(dtype));
  };
  if (dtype == DType::float32) return transpose<std::uint32_t>(from, row_stride, lanes, cols, at(channel));
  if (dtype == DType::float16) return transpose<std::uint16_t>(from, row_stride, lanes, cols, at(channel));
  const auto single = [&](std::int64_t col) {
    for (std::int64_t l = 0; l < lanes; ++l) std::memcpy(at(channel + col) + l * 4, from + l * row_stride + col * 2, 2);
  };
  const std::int64_t head = channel % 2;  // the second half of a pair that an earlier piece began
  if (head != 0) single(0);
  const std::int64_t pairs = (cols - head) / 2;
  if (pairs > 0) transpose<std::uint32_t>(from + head * 2, row_stride, lanes, pairs, at(channel + head));
  if (head + 2 * pairs < cols) single(cols - 1);
}

}  // namespace

void convert_row(const StoredMatrix& from, std::int64_t row, std::int64_t col, std::int64_t cols, DType dtype,
                 std::byte* to) {
  convert(from.data + row * from.row_stride + col * from.col_stride, from.dtype, from.col_stride, cols, dtype, to);
}

void copy_to_panel(const StoredMatrix& from, const PanelPiece& piece, DType dtype, std::byte* leaf) {
  const auto element = static_cast<std::int64_t>(dtype_size(dtype));
  const std::byte* start = from.data + piece.row * from.row_stride + piece.col * from.col_stride;
  if (from.dtype == dtype && from.col_stride == element)
    return pack(start, from.row_stride, piece.lanes, piece.cols, dtype, piece.lane, piece.channel, leaf);
  alignas(64) std::byte tile[kLanes * kTileCols * 4];
  for (std::int64_t c = 0; c < piece.cols; c += kTileCols) {
    const std::int64_t cols = std::min(kTileCols, piece.cols - c);
    for (std::int64_t l = 0; l < piece.lanes; ++l)
      convert(start + l * from.row_stride + c * from.col_stride, from.dtype, from.col_stride, cols, dtype,
              tile + l * kTileCols * element);
    pack(tile, kTileCols * element, piece.lanes, cols, dtype, piece.lane, piece.channel + c, leaf);
  }
}

}  // namespace tpinfer
