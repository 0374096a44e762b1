#include "backend/cuda/cuda_kernels.hpp"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/fragments.cuh"

namespace tpinfer::cuda {
namespace {

constexpr int kGroupThreads = 512;

struct Choice {
  float value;
  int expert;
};

/// The better of two: the higher value, ties to the lower number.
__device__ Choice better(Choice a, Choice b) {
  return b.value > a.value || (b.value == a.value && b.expert < a.expert) ? b : a;
}

/// The best of all lanes, in every lane.
__device__ Choice best_of_warp(Choice mine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const Choice other{__shfl_xor_sync(kAllLanes, mine.value, distance),
                       __shfl_xor_sync(kAllLanes, mine.expert, distance)};
    mine = better(mine, other);
  }
  return mine;
}

/// probabilities [count] = softmax of logits.
__device__ void warp_softmax(const float* logits, int count, float* probabilities) {
  float top = -INFINITY;
  for (int e = lane_index(); e < count; e += 32) top = fmaxf(top, logits[e]);
  for (int distance = 16; distance > 0; distance /= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, distance));
  float sum = 0.0F;
  for (int e = lane_index(); e < count; e += 32) {
    probabilities[e] = expf(logits[e] - top);
    sum += probabilities[e];
  }
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
  for (int e = lane_index(); e < count; e += 32) probabilities[e] /= sum;
}

/// One warp a row.
__global__ void route_kernel(const float* logits, int cols, RoutingParams params, Routing routing) {
  TPINFER_SHARED_MEMORY(float, probabilities);
  const int count = static_cast<int>(params.experts);
  const float* row = logits + static_cast<std::int64_t>(blockIdx.x) * cols;
  std::int32_t* experts = routing.experts + static_cast<std::int64_t>(blockIdx.x) * routing.slots;
  float* weights = routing.weights + static_cast<std::int64_t>(blockIdx.x) * routing.slots;
  warp_softmax(row, count, probabilities);
  float sum = 0.0F;
  for (int k = 0; k < params.per_token; ++k) {
    Choice mine{-2.0F, count};
    for (int e = lane_index(); e < count; e += 32) mine = better(mine, {probabilities[e], e});
    const Choice best = best_of_warp(mine);
    if (best.expert < count && best.expert % 32 == lane_index()) probabilities[best.expert] = -1.0F;
    if (lane_index() == 0) {
      experts[k] = best.expert < count ? best.expert : 0;  // all logits NaN: any expert, its weight is NaN too
      weights[k] = best.expert < count ? best.value : NAN;
    }
    sum += best.value;
  }
  if (lane_index() != 0) return;
  if (params.renormalise)
    for (int k = 0; k < params.per_token; ++k) weights[k] /= sum;
  if (!params.shared) return;
  experts[params.per_token] = count;
  weights[params.per_token] = 1.0F / (1.0F + expf(-row[count]));
}

/// One block. Which entry of its expert a choice becomes is left to the order of the threads: entries do not touch each
/// other, and sums over the slots of a row go by slot.
__global__ void group_kernel(Routing routing, int rows, int experts, int tile_rows, ExpertEntries entries) {
  TPINFER_SHARED_MEMORY(int, counts);
  int* next = counts + experts;
  const int choices = rows * static_cast<int>(routing.slots);
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kGroupThreads) counts[e] = 0;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < choices; i += kGroupThreads)
    atomicAdd(&counts[routing.experts[i]], 1);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += kGroupThreads) {
    int begin = 0;
    int tile = 0;
    for (int before = 0; before < e; ++before) {
      begin += counts[before];
      tile += (counts[before] + tile_rows - 1) / tile_rows;
    }
    next[e] = begin;
    const int end = begin + counts[e];
    for (int first = begin; first < end; first += tile_rows)
      entries.tiles[tile++] = {e, first, end - first < tile_rows ? end - first : tile_rows};
    if (e + 1 == experts) *entries.tiles_end = tile;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < choices; i += kGroupThreads) {
    const std::int32_t expert = routing.experts[i];
    const int entry = atomicAdd(&next[expert], 1);
    entries.rows[entry] = i / static_cast<int>(routing.slots);
    entries.experts[entry] = expert;
    entries.weights[entry] = routing.weights[i];
    entries.places[i] = entry;
  }
}

__global__ void combine_kernel(const float* y, std::int64_t cols, Routing routing, const std::int32_t* places,
                               float* partials) {
  const std::int64_t col = element_column();
  if (col >= cols) return;
  float total = 0.0F;
  for (std::int64_t slot = element_row() * routing.slots; slot < (element_row() + 1) * routing.slots; ++slot)
    total += routing.weights[slot] * y[places[slot] * cols + col];
  partials[element_row() * cols + col] = total;
}

}  // namespace

void route(const Tensor& logits, const RoutingParams& params, const Routing& routing, cudaStream_t stream) {
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(logits.rows)),
                          .block = dim3(32),
                          .shared_bytes = static_cast<std::size_t>(params.experts) * sizeof(float)};
  launch(route_kernel, shape, stream, logits.floats(), static_cast<int>(logits.cols), params, routing);
}

void group_rows(const Routing& routing, std::int64_t rows, std::int64_t experts, int tile_rows,
                const ExpertEntries& entries, cudaStream_t stream) {
  const LaunchShape shape{.grid = dim3(1),
                          .block = dim3(kGroupThreads),
                          .shared_bytes = static_cast<std::size_t>(2 * experts) * sizeof(int)};
  launch(group_kernel, shape, stream, routing, static_cast<int>(rows), static_cast<int>(experts), tile_rows, entries);
}

void combine_slots(const float* y, const Routing& routing, const std::int32_t* places, const Tensor& partials,
                   cudaStream_t stream) {
  launch(combine_kernel, element_shape(partials.rows, partials.cols), stream, y, partials.cols, routing, places,
         partials.floats());
}

}  // namespace tpinfer::cuda
