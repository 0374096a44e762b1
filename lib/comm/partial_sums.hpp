#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>

#include "core/parallel_for.hpp"

namespace tpinfer {

/// One pointer a rank; all ranges below are of elements [begin, end). Partial sums are double (exact) or float.
template <class Partial>
using Parts = std::span<const Partial* const>;

/// out[i] = float(sum of the parts' i-th), in ascending order of parts. Returns how many sums are at or above
/// kExactLimit in magnitude (of float, none: nothing was promised).
std::uint64_t sum_to_float(Parts<double> parts, std::int64_t begin, std::int64_t end, float* out);
std::uint64_t sum_to_float(Parts<float> parts, std::int64_t begin, std::int64_t end, float* out);

/// sums[i] = sum of the parts' i-th; `sums` may be one of the parts.
void sum_parts(Parts<double> parts, std::int64_t begin, std::int64_t end, double* sums);
void sum_parts(Parts<float> parts, std::int64_t begin, std::int64_t end, float* sums);

/// Calls body(begin, end) on ranges that cover [begin, end), on this thread when dividing would cost more than it
/// saves; returns the sum of what the calls return.
std::uint64_t over_range(ParallelFor& parallel, std::int64_t begin, std::int64_t end,
                         const std::function<std::uint64_t(std::int64_t, std::int64_t)>& body);

struct FreeAligned {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
void* aligned_bytes(std::size_t bytes);
/// `count` elements, at a multiple of 64 bytes, not initialised (so that no page is touched before its use).
template <class Partial>
std::unique_ptr<Partial[], FreeAligned> aligned_partials(std::int64_t count) {
  return std::unique_ptr<Partial[], FreeAligned>(static_cast<Partial*>(aligned_bytes(count * sizeof(Partial))));
}

}  // namespace tpinfer
