#include "backend/cpu/packed_matrix.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cpu/packed_matrix_copy.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

/// For many rows the channels are done in chunks of about this many: the inputs of a block of rows and the weights of a
/// panel then stay in the second level cache together.
constexpr std::int64_t kChunk = 2048;
/// Exact sums are fetched and put back at every chunk, and take twice the room.
constexpr std::int64_t kExactChunk = 4096;

std::vector<Leaf> make_leaves(const MatrixSpec& spec) {
  const std::vector<std::int64_t> whole{spec.cols};
  std::vector<Leaf> leaves;
  std::int64_t begin = 0;
  std::int64_t offset = 0;
  for (const std::int64_t end : spec.leaf_ends.empty() ? whole : spec.leaf_ends) {
    if (end < begin || end > spec.cols)
      throw Error(ExitCode::internal,
                  fmt::format("a leaf of channels {} to {} in a matrix of {} channels", begin, end, spec.cols));
    if (end == begin) continue;
    leaves.push_back({begin, end - begin, offset});
    offset += spec.dtype == DType::bfloat16 ? (end - begin + 1) / 2 * 2 : end - begin;
    begin = end;
  }
  if (begin != spec.cols)
    throw Error(ExitCode::internal, fmt::format("the leaves end at channel {} of {}", begin, spec.cols));
  return leaves;
}

MatmulChunks make_chunks(const std::vector<Leaf>& leaves, std::int64_t most, bool divide_leaves) {
  MatmulChunks made;
  for (const Leaf& leaf : leaves) {
    // A leaf of an exact sum is never divided: its sum has nowhere to wait.
    const std::int64_t part = divide_leaves ? most : leaf.channels;
    for (std::int64_t k = 0; k < leaf.channels; k += part) {
      const std::int64_t channels = std::min(part, leaf.channels - k);
      if (made.chunks.empty() || made.chunks.back().channels + channels > most)
        made.chunks.push_back({leaf.first_col + k, 0, leaf.offset + k, std::ssize(made.pieces), 0});
      MatmulChunk& chunk = made.chunks.back();
      made.pieces.push_back({leaf.offset + k - chunk.offset, leaf.first_col + k - chunk.first_col, channels});
      ++chunk.pieces;
      chunk.channels += channels;
      made.longest = std::max(made.longest, chunk.channels);
    }
  }
  return made;
}

}  // namespace

CpuMatrix::CpuMatrix(MatrixSpec wanted) : PackedMatrix(std::move(wanted)) {
  const MatrixSpec& s = spec();
  if (s.rows < 0 || s.cols < 0 || !is_weight_type(s.dtype))
    throw Error(ExitCode::internal,
                fmt::format("a weight matrix [{}, {}] of type {}", s.rows, s.cols, dtype_name(s.dtype)));
  const auto element = static_cast<std::int64_t>(dtype_size(s.dtype));
  std::int64_t bytes = s.rows * s.cols * element;
  if (!s.lookup_only) {
    leaves_ = make_leaves(s);
    channel_bytes_ = kPanelRows * element;
    for (const Leaf& leaf : leaves_)
      panel_bytes_ += channel_bytes_ * (s.dtype == DType::bfloat16 ? (leaf.channels + 1) / 2 * 2 : leaf.channels);
    bytes = panels() * panel_bytes_;
    chunks_ = {make_chunks(leaves_, s.cols, false), make_chunks(leaves_, kExactChunk, false),
               make_chunks(leaves_, kChunk, true)};
  }
  memory_ = HugeMemory(static_cast<std::size_t>(bytes));
}

void CpuMatrix::load(std::int64_t first_row, std::int64_t first_col, const StoredMatrix& from, ParallelFor& parallel) {
  const MatrixSpec& s = spec();
  if (first_row < 0 || first_col < 0 || from.rows < 0 || from.cols < 0 || first_row + from.rows > s.rows ||
      first_col + from.cols > s.cols || !is_weight_type(from.dtype))
    throw Error(ExitCode::internal,
                fmt::format("a stored matrix [{}, {}] of type {} at row {}, column {} of a matrix [{}, {}]", from.rows,
                            from.cols, dtype_name(from.dtype), first_row, first_col, s.rows, s.cols));
  if (from.rows == 0 || from.cols == 0) return;
  if (s.lookup_only) {
    parallel.run(from.rows, 1,
                 [&](std::int64_t begin, std::int64_t end) { load_rows(first_row, first_col, from, begin, end); });
    return;
  }
  const std::int64_t first_panel = first_row / kPanelRows;
  const std::int64_t end_panel = (first_row + from.rows + kPanelRows - 1) / kPanelRows;
  parallel.run(end_panel - first_panel, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) load_panel(first_panel + p, first_row, first_col, from);
  });
}

void CpuMatrix::load_rows(std::int64_t first_row, std::int64_t first_col, const StoredMatrix& from, std::int64_t begin,
                          std::int64_t end) {
  const auto element = static_cast<std::int64_t>(dtype_size(spec().dtype));
  for (std::int64_t r = begin; r < end; ++r)
    convert_row(from, r, 0, from.cols, spec().dtype,
                memory_.data() + ((first_row + r) * spec().cols + first_col) * element);
}

void CpuMatrix::load_panel(std::int64_t panel, std::int64_t first_row, std::int64_t first_col,
                           const StoredMatrix& from) {
  const std::int64_t top = panel * kPanelRows;
  const std::int64_t row = std::max(first_row, top);
  PanelPiece piece;
  piece.row = row - first_row;
  piece.lane = row - top;
  piece.lanes = std::min(first_row + from.rows, top + kPanelRows) - row;
  for (const Leaf& leaf : leaves_) {
    const std::int64_t begin = std::max(first_col, leaf.first_col);
    const std::int64_t end = std::min(first_col + from.cols, leaf.first_col + leaf.channels);
    if (begin >= end) continue;
    piece.col = begin - first_col;
    piece.cols = end - begin;
    piece.channel = begin - leaf.first_col;
    copy_to_panel(from, piece, spec().dtype, memory_.data() + panel * panel_bytes_ + leaf.offset * channel_bytes_);
  }
}

template <class Float>
void CpuMatrix::copy_row(std::int64_t row, Float* out) const noexcept {
  const MatrixSpec& s = spec();
  if (s.lookup_only) {
    const std::byte* data = memory_.data() + row * s.cols * static_cast<std::int64_t>(dtype_size(s.dtype));
    for (std::int64_t c = 0; c < s.cols; ++c)
      out[c] = static_cast<Float>(load_element(data, s.dtype, static_cast<std::size_t>(c))) + Float{0};
    return;
  }
  const std::int64_t lane = row % kPanelRows;
  for (const Leaf& leaf : leaves_) {
    const std::byte* data = panel(row / kPanelRows, leaf.offset);
    for (std::int64_t k = 0; k < leaf.channels; ++k)
      out[leaf.first_col + k] =
          static_cast<Float>(load_element(data, s.dtype, panel_index(s.dtype, k, lane))) + Float{0};
  }
}

template void CpuMatrix::copy_row(std::int64_t row, double* out) const noexcept;
template void CpuMatrix::copy_row(std::int64_t row, float* out) const noexcept;

}  // namespace tpinfer
