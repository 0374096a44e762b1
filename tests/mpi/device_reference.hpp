#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "comm/device_communicator.hpp"
#include "core/exact_sum.hpp"

// What reductions are compared with.
namespace tpinfer::testing {

inline constexpr std::int64_t kMost = 120'000;

inline DeviceCommunicatorOptions options_for(Transport transport) {
  DeviceCommunicatorOptions options;
  options.most_partials = kMost;
  options.most_gathered = 20'000;
  options.transport = transport;
  options.timeout = 30;
  return options;
}

// Rank `rank`'s partial sums of reduce `call`: multiples of 2^-28, far from alike in size.
inline void fill(int rank, int call, std::int64_t count, double* values) {
  std::mt19937 engine(static_cast<unsigned>(1000 * call + rank));
  std::uniform_real_distribution<float> size(-30, 12);
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = std::exp2(size(engine));
    values[i] = round_to_grid(i % 2 ? value : -value);
  }
}

inline std::vector<float> reference(int ranks, int call, std::int64_t count) {
  std::vector<double> sum(static_cast<std::size_t>(count));
  std::vector<double> part(static_cast<std::size_t>(count));
  for (int rank = ranks - 1; rank >= 0; --rank) {  // any order is right
    fill(rank, call, count, part.data());
    for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
  }
  return {sum.begin(), sum.end()};
}

inline Tensor total_of(std::vector<float>& total, std::int64_t count) {
  return {total.data(), DType::float32, 1, count};
}

inline std::vector<float> reduce(DeviceCommunicator& device, int call, std::int64_t count) {
  std::vector<float> total(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
  const Tensor to = total_of(total, count);
  const Tensor partials = device.partials(to);
  fill(device.rank(), call, count, static_cast<double*>(partials.data));
  device.reduce(partials, to);
  return total;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace tpinfer::testing
