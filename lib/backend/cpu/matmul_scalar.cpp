#include <cstring>

#include "backend/cpu/matmul_kernel.hpp"
#include "core/dtype.hpp"
#include "core/exact_sum.hpp"

// The definition of every product: the other kernel sets are tested against it. One product and one addition a channel.

namespace tpinfer {
namespace {

constexpr std::int64_t kLanes = 32;

template <DType dtype>
float load(const std::byte* data, std::int64_t index) {
  if constexpr (dtype == DType::float32) {
    float value;
    std::memcpy(&value, data + index * 4, sizeof value);
    return value;
  } else {
    std::uint16_t bits;
    std::memcpy(&bits, data + index * 2, sizeof bits);
    return dtype == DType::bfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
  }
}

/// Weight of one lane of a panel.
template <DType dtype>
float load_weight(const std::byte* panel, std::int64_t channel, std::int64_t lane) {
  return load<dtype>(panel, dtype == DType::bfloat16 ? channel / 2 * 64 + lane * 2 + channel % 2 : channel * 32 + lane);
}

/// Adds the products of one piece to the sums of a panel.
template <DType dtype>
void add_products(const MatmulBlock& b, std::int64_t row, std::int64_t panel, const MatmulPiece& piece,
                  float (&sums)[kLanes]) {
  const std::byte* x = b.x + row * b.x_stride;
  const std::byte* weights = b.weights + panel * b.panel_bytes;
  for (std::int64_t k = 0; k < piece.channels; ++k) {
    const float value = load<DType::float32>(x, piece.col + k);
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += value * load_weight<dtype>(weights, piece.offset + k, lane);
  }
}

template <DType dtype>
void run(const MatmulBlock& b) {
  for (std::int64_t panel = 0; panel < b.panels; ++panel)
    for (std::int64_t row = 0; row < b.rows; ++row) {
      const std::int64_t to = b.rows_to != nullptr ? b.rows_to[row] : row;
      const std::int64_t at = to * b.stride + panel * kLanes;
      for (std::int64_t i = 0; i < b.piece_count; ++i) {
        const bool first = b.first && i == 0;
        const bool go_on = b.totals == nullptr && b.scales == nullptr && !first;  // one chain of additions
        float sums[kLanes] = {};
        if (go_on) std::memcpy(sums, b.sums + at, sizeof sums);
        add_products<dtype>(b, row, panel, b.pieces[i], sums);
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
          const float sum = b.scales != nullptr ? sums[lane] * b.scales[row] : sums[lane];
          if (b.totals != nullptr)
            b.totals[at + lane] = (first ? 0.0 : b.totals[at + lane]) + round_to_grid(sum);
          else
            b.sums[at + lane] = first || go_on ? sum : b.sums[at + lane] + sum;
        }
      }
      for (std::int64_t lane = 0; b.bias != nullptr && lane < kLanes; ++lane)
        b.sums[at + lane] += b.bias[panel * kLanes + lane];
    }
}

}  // namespace

const MatmulKernels kScalarMatmul = {.float32 = {.run = run<DType::float32>},
                                     .float16 = {.run = run<DType::float16>},
                                     .bfloat16 = {.run = run<DType::bfloat16>}};

}  // namespace tpinfer
