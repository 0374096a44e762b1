#include "comm/partial_sums.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kBlock = 512;           // sums in progress, in the first-level cache
constexpr std::int64_t kWorthDividing = 8192;  // elements for which waking other threads pays

// The loops below are built for two instruction sets and chosen at run time; sums and conversions of single elements
// have the same bits in both.
#if defined(__x86_64__)
#define TPINFER_VECTOR_CLONES [[gnu::target_clones("avx2", "default")]]
#else
#define TPINFER_VECTOR_CLONES
#endif

TPINFER_VECTOR_CLONES void add_two(const double* a, const double* b, std::int64_t count, double* sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] = a[i] + b[i];
}

// Whether any value has at least the magnitude of kExactLimit is known from all together, how many is rarely asked.
TPINFER_VECTOR_CLONES bool to_float(const double* sums, std::int64_t count, float* out) {
  std::int64_t any = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(sums[i]);
    any |= std::abs(sums[i]) >= kExactLimit ? 1 : 0;
  }
  return any != 0;
}

// Sums of one block, at most kBlock of them, in `block`; the part itself when there is only one.
const double* sum_block(Parts parts, std::int64_t at, std::int64_t count, double* block) {
  const double* sums = parts[0] + at;
  for (const double* part : parts.subspan(1)) {
    add_two(sums, part + at, count, block);
    sums = block;
  }
  return sums;
}

}  // namespace

std::uint64_t sum_to_float(Parts parts, std::int64_t begin, std::int64_t end, float* out) {
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

void sum_parts(Parts parts, std::int64_t begin, std::int64_t end, double* sums) {
  std::array<double, kBlock> block;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    const double* from = sum_block(parts, at, count, block.data());
    if (from != sums + at) std::copy_n(from, count, sums + at);
  }
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

void FreeAligned::operator()(double* memory) const noexcept { std::free(memory); }

std::unique_ptr<double[], FreeAligned> aligned_doubles(std::int64_t count) {
  constexpr std::size_t kAlign = 64;
  const std::size_t bytes =
      (static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(double) + kAlign - 1) / kAlign * kAlign;
  auto* memory = static_cast<double*>(std::aligned_alloc(kAlign, bytes));
  if (!memory) throw std::bad_alloc();
  return std::unique_ptr<double[], FreeAligned>(memory);
}

}  // namespace tpinfer
