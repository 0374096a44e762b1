#include "comm/partial_sums.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <new>

#include "core/exact_sum.hpp"
#include "core/vector_clones.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kBlock = 512;           // sums in progress, in the first-level cache
constexpr std::int64_t kWorthDividing = 8192;  // elements for which waking other threads pays

TPINFER_VECTOR_CLONES("avx2", "default")
void add_two(const double* a, const double* b, std::int64_t count, double* sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] = a[i] + b[i];
}

TPINFER_VECTOR_CLONES("avx2", "default") void add_two(const float* a, const float* b, std::int64_t count, float* sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] = a[i] + b[i];
}

// Whether any value has at least the magnitude of kExactLimit is known from all together, how many is rarely asked.
TPINFER_VECTOR_CLONES("avx2", "default") bool to_float(const double* sums, std::int64_t count, float* out) {
  std::int64_t any = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(sums[i]);
    any |= std::abs(sums[i]) >= kExactLimit ? 1 : 0;
  }
  return any != 0;
}

// Sums of one block, at most kBlock of them, in `block`; the part itself when there is only one.
template <class Partial>
const Partial* sum_block(Parts<Partial> parts, std::int64_t at, std::int64_t count, Partial* block) {
  const Partial* sums = parts[0] + at;
  for (const Partial* part : parts.subspan(1)) {
    add_two(sums, part + at, count, block);
    sums = block;
  }
  return sums;
}

template <class Partial>
void sum_blocks(Parts<Partial> parts, std::int64_t begin, std::int64_t end, Partial* sums) {
  std::array<Partial, kBlock> block;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    const Partial* from = sum_block(parts, at, count, block.data());
    if (from != sums + at) std::copy_n(from, count, sums + at);
  }
}

}  // namespace

std::uint64_t sum_to_float(Parts<double> parts, std::int64_t begin, std::int64_t end, float* out) {
  std::array<double, kBlock> block;
  std::uint64_t beyond = 0;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    const double* sums = sum_block(parts, at, count, block.data());
    if (to_float(sums, count, out + at))
      beyond += static_cast<std::uint64_t>(
          std::count_if(sums, sums + count, [](double sum) { return std::abs(sum) >= kExactLimit; }));
  }
  return beyond;
}

std::uint64_t sum_to_float(Parts<float> parts, std::int64_t begin, std::int64_t end, float* out) {
  sum_blocks(parts, begin, end, out);
  return 0;
}

void sum_parts(Parts<double> parts, std::int64_t begin, std::int64_t end, double* sums) {
  sum_blocks(parts, begin, end, sums);
}

void sum_parts(Parts<float> parts, std::int64_t begin, std::int64_t end, float* sums) {
  sum_blocks(parts, begin, end, sums);
}

std::uint64_t over_range(ParallelFor& parallel, std::int64_t begin, std::int64_t end,
                         const std::function<std::uint64_t(std::int64_t, std::int64_t)>& body) {
  if (begin >= end) return 0;
  if (end - begin < kWorthDividing || parallel.threads() == 1) return body(begin, end);
  std::atomic<std::uint64_t> sum = 0;
  parallel.run(end - begin, kWorthDividing / 4, [&](std::int64_t first, std::int64_t last) {
    sum.fetch_add(body(begin + first, begin + last), std::memory_order_relaxed);
  });
  return sum.load();
}

void* aligned_bytes(std::size_t bytes) {
  constexpr std::size_t kAlign = 64;
  void* memory = std::aligned_alloc(kAlign, (std::max<std::size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace tpinfer
