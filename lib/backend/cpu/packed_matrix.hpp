#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/huge_memory.hpp"
#include "backend/cpu/matmul_kernel.hpp"
#include "core/parallel_for.hpp"

namespace tpinfer {

/// Output rows in a panel: what a kernel computes side by side.
inline constexpr std::int64_t kPanelRows = 32;

/// A run of input channels that is summed in one float32 sum.
struct Leaf {
  std::int64_t first_col = 0;
  std::int64_t channels = 0;
  std::int64_t offset = 0;  ///< first channel in a panel, padding of earlier leaves counted
};

/// Channels that a product does at a time: some leaves, or part of one.
struct MatmulChunk {
  std::int64_t first_col = 0;
  std::int64_t channels = 0;
  std::int64_t offset = 0;  ///< channel in the panel
  std::int64_t first_piece = 0;
  std::int64_t pieces = 0;
};

/// How the channels of a matrix are divided: not at all, for exact sums (leaves stay whole), for plain ones.
enum class Chunking : std::size_t { whole, exact, plain };

/// The channels of a matrix in one of these ways, made once so that a product takes no memory.
struct MatmulChunks {
  std::vector<MatmulChunk> chunks;
  std::vector<MatmulPiece> pieces;  ///< of all chunks
  std::int64_t longest = 0;         ///< channels
};

/// Weights as the CPU kernels read them: panels of 32 output rows, one after the other, the last one filled up with
/// zero rows. Within a panel the channels follow each other:
///   float32, float16: [channel][32]
///   bfloat16:         [channel pair][32][2]; a leaf with an odd number of channels ends with a zero channel
/// A lookup_only matrix is [rows][cols] instead. Element (row, col) of a panelled matrix, worked example for bfloat16
/// and one leaf: row 37, col 5 is in panel 1, pair 2, lane 5, second half: panel_bytes + 2 * 128 + 5 * 4 + 2.
class CpuMatrix final : public PackedMatrix {
 public:
  /// All zero. Error(internal) for a type that weights cannot have or leaf ends that do not ascend to cols.
  explicit CpuMatrix(MatrixSpec spec);

  std::size_t bytes() const noexcept override { return memory_.bytes(); }
  /// Converts `from` (float32, float16 or bfloat16; round to nearest, ties to even) into rows [first_row, ...) and
  /// columns [first_col, ...). Error(internal) when it does not lie within the matrix.
  void load(std::int64_t first_row, std::int64_t first_col, const StoredMatrix& from, ParallelFor& parallel);

  std::int64_t panels() const noexcept { return (spec().rows + kPanelRows - 1) / kPanelRows; }
  std::int64_t panel_bytes() const noexcept { return panel_bytes_; }
  /// The leaves in ascending order, empty ones left out; one for a column-parallel matrix.
  std::span<const Leaf> leaves() const noexcept { return leaves_; }
  const MatmulChunks& chunks(Chunking chunking) const noexcept { return chunks_[static_cast<std::size_t>(chunking)]; }
  /// Channel `channel` (padding counted) of a panel; of a pair's first half only.
  const std::byte* panel(std::int64_t panel, std::int64_t channel) const noexcept {
    return memory_.data() + panel * panel_bytes_ + channel * channel_bytes_;
  }
  /// Writes row `row` to out [cols], -0 as +0.
  template <class Float>
  void copy_row(std::int64_t row, Float* out) const noexcept;

 private:
  void load_rows(std::int64_t first_row, std::int64_t first_col, const StoredMatrix& from, std::int64_t begin,
                 std::int64_t end);
  void load_panel(std::int64_t panel, std::int64_t first_row, std::int64_t first_col, const StoredMatrix& from);

  std::vector<Leaf> leaves_;
  std::array<MatmulChunks, 3> chunks_;  ///< by Chunking
  std::int64_t channel_bytes_ = 0;      ///< 32 elements
  std::int64_t panel_bytes_ = 0;
  HugeMemory memory_;
};

}  // namespace tpinfer
