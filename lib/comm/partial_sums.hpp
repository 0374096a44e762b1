#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/parallel_for.hpp"

namespace tpinfer {

/// One pointer a rank; all ranges below are of elements [begin, end).
using Parts = std::span<const double* const>;

/// out[i] = float(sum of the parts' i-th), in ascending order of parts. Returns how many sums are at or above
/// kExactLimit in magnitude.
std::uint64_t sum_to_float(Parts parts, std::int64_t begin, std::int64_t end, float* out);

/// sums[i] = sum of the parts' i-th, in float64; `sums` may be one of the parts.
void sum_parts(Parts parts, std::int64_t begin, std::int64_t end, double* sums);

/// Calls body(begin, end) on ranges that cover [begin, end), on this thread when dividing would cost more than it
/// saves; returns the sum of what the calls return.
std::uint64_t over_range(ParallelFor& parallel, std::int64_t begin, std::int64_t end,
                         const std::function<std::uint64_t(std::int64_t, std::int64_t)>& body);

struct FreeAligned {
  void operator()(double* memory) const noexcept;
};
/// `count` doubles, at a multiple of 64 bytes, not initialised (so that no page is touched before its use).
std::unique_ptr<double[], FreeAligned> aligned_doubles(std::int64_t count);

}  // namespace tpinfer
