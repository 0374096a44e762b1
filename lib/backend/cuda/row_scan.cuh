#pragma once

#include "backend/cuda/fragments.cuh"

/// What a block of threads finds out about one row of values. All sums are of integers, or in one order: results depend
/// on the row alone.
namespace tpinfer::cuda {

inline constexpr int kRowThreads = 512;
inline constexpr int kRowWarps = kRowThreads / 32;
inline constexpr int kBins = 256;

/// Shared memory of a block.
struct RowScratch {
  double doubles[kRowWarps];
  unsigned long long masses[kRowThreads];
  unsigned long long bins[kBins];
  float values[kRowWarps];
  int ids[kRowWarps];
  unsigned long long found_mass;
  unsigned found_key;
  int found_id;
  float found_value;
};

/// Ascending like the values; NaN stands above or below all of them.
__device__ inline unsigned order_key(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (bits & 0x80000000U) ? ~bits : bits | 0x80000000U;
}

__device__ inline float value_of_key(unsigned key) {
  const std::uint32_t bits = (key & 0x80000000U) ? key & 0x7fffffffU : ~key;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

struct RankedValue {
  float value = -INFINITY;
  int id = 0x7fffffff;
};

/// Higher values first, ties to the lower id.
__device__ inline bool precedes(const RankedValue& a, const RankedValue& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// The first of all threads' values, on every thread.
__device__ inline RankedValue block_best(RankedValue mine, RowScratch& scratch) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const RankedValue other{__shfl_xor_sync(kAllLanes, mine.value, distance),
                            __shfl_xor_sync(kAllLanes, mine.id, distance)};
    if (precedes(other, mine)) mine = other;
  }
  __syncthreads();
  if (lane_index() == 0) {
    scratch.values[warp_index()] = mine.value;
    scratch.ids[warp_index()] = mine.id;
  }
  __syncthreads();
  for (int warp = 0; warp < kRowWarps; ++warp) {
    const RankedValue other{scratch.values[warp], scratch.ids[warp]};
    if (precedes(other, mine)) mine = other;
  }
  return mine;
}

/// In one order.
__device__ inline double block_sum(double mine, RowScratch& scratch) {
  for (int distance = 16; distance > 0; distance /= 2) mine += __shfl_xor_sync(kAllLanes, mine, distance);
  __syncthreads();
  if (lane_index() == 0) scratch.doubles[warp_index()] = mine;
  __syncthreads();
  double sum = 0.0;
  for (int warp = 0; warp < kRowWarps; ++warp) sum += scratch.doubles[warp];
  return sum;
}

/// -> the sum of the threads before this one; `total` of all.
__device__ inline unsigned long long block_prefix(unsigned long long mine, unsigned long long& total,
                                                  RowScratch& scratch) {
  const auto self = static_cast<int>(threadIdx.x);
  __syncthreads();
  scratch.masses[self] = mine;
  __syncthreads();
  unsigned long long sum = mine;
  for (int distance = 1; distance < kRowThreads; distance *= 2) {
    const unsigned long long before = self >= distance ? scratch.masses[self - distance] : 0;
    __syncthreads();
    sum += before;
    scratch.masses[self] = sum;
    __syncthreads();
  }
  total = scratch.masses[kRowThreads - 1];
  return sum - mine;
}

/// A key of the row, and the mass of what lies beyond it.
struct KeyCut {
  unsigned key = 0;
  unsigned long long beyond = 0;
};

/// Going through the keys from the top (or the bottom), the first one at which the summed mass exceeds `limit`; its own
/// mass is not in `beyond`. `mass(i, key)` sets the key of id i and gives its mass, 0: it is not there. There must be
/// more mass than `limit`. Byte by byte: each pass counts by the next byte of the keys that begin alike.
template <class Mass>
__device__ KeyCut find_cut(int count, unsigned long long limit, bool from_top, const Mass& mass, RowScratch& scratch) {
  KeyCut cut;
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kRowThreads) scratch.bins[bin] = 0;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kRowThreads) {
      unsigned key = 0;
      const unsigned long long m = mass(i, key);
      if (m > 0 && (shift == 24 || key >> (shift + 8) == cut.key >> (shift + 8)))
        atomicAdd(&scratch.bins[key >> shift & 255U], m);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned long long beyond = cut.beyond;
      int bin = from_top ? kBins - 1 : 0;
      const int last = from_top ? 0 : kBins - 1;
      for (; bin != last && beyond + scratch.bins[bin] <= limit; bin += from_top ? -1 : 1) beyond += scratch.bins[bin];
      scratch.found_key = cut.key | static_cast<unsigned>(bin) << shift;
      scratch.found_mass = beyond;
    }
    __syncthreads();
    cut = {scratch.found_key, scratch.found_mass};
  }
  return cut;
}

/// The ids of a thread where their order matters: adjacent ones.
struct IdRange {
  int begin;
  int end;
};
__device__ inline IdRange my_ids(int count) {
  const int each = (count + kRowThreads - 1) / kRowThreads;
  const int begin = static_cast<int>(threadIdx.x) * each;
  return {begin < count ? begin : count, begin + each < count ? begin + each : count};
}

}  // namespace tpinfer::cuda
