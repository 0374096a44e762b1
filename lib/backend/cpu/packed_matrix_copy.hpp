#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.hpp"

namespace tpinfer {

/// Place of (channel, lane) in one leaf of a panel, in elements.
constexpr std::size_t panel_index(DType dtype, std::int64_t channel, std::int64_t lane) noexcept {
  return static_cast<std::size_t>(dtype == DType::bfloat16 ? channel / 2 * 64 + lane * 2 + channel % 2
                                                           : channel * 32 + lane);
}

/// Part of a stored matrix that goes into one leaf of one panel.
struct PanelPiece {
  std::int64_t row = 0;  ///< of the stored matrix
  std::int64_t lanes = 0;
  std::int64_t col = 0;  ///< of the stored matrix
  std::int64_t cols = 0;
  std::int64_t lane = 0;     ///< where `row` goes in the panel
  std::int64_t channel = 0;  ///< where `col` goes in the leaf
};

/// Columns [col, col + cols) of row `row` as `to` [cols], rounded to nearest, ties to even.
void convert_row(const StoredMatrix& from, std::int64_t row, std::int64_t col, std::int64_t cols, DType dtype,
                 std::byte* to);
/// Copies a piece into the leaf that begins at `leaf`.
void copy_to_panel(const StoredMatrix& from, const PanelPiece& piece, DType dtype, std::byte* leaf);

}  // namespace tpinfer
