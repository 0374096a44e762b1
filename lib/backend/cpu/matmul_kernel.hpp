#pragma once

// Included by files that are compiled for one instruction set: nothing here may become code that other files share.

#include <cstddef>
#include <cstdint>

namespace tpinfer {

/// Channels of one leaf, or of a part of it.
struct MatmulPiece {
  std::int64_t offset = 0;  ///< first channel in the panel, from the block's
  std::int64_t col = 0;     ///< first column of x, from the block's
  std::int64_t channels = 0;
};

/// Some rows of x times some adjacent panels, over adjacent pieces, channels in ascending order. The sum of an output
/// is one chain of operations that does not depend on how many rows or panels are done together.
struct MatmulBlock {
  const std::byte* weights = nullptr;  ///< first channel of the first panel
  std::int64_t panel_bytes = 0;
  std::int64_t panels = 0;
  const std::byte* next = nullptr;  ///< weights that are fetched meanwhile, as many as these
  const std::byte* x = nullptr;     ///< [rows, ...], float32 or bfloat16
  std::int64_t x_stride = 0;        ///< bytes
  std::int64_t rows = 0;
  const MatmulPiece* pieces = nullptr;
  std::int64_t piece_count = 0;
  bool first = true;              ///< sums begin at zero here, otherwise they go on
  float* sums = nullptr;          ///< [rows, 32 panels], or
  double* totals = nullptr;       ///< [rows, 32 panels]: the sum of each piece is rounded to the grid and added here
  std::int64_t stride = 0;        ///< of sums or totals, in elements
  const float* scales = nullptr;  ///< [rows] a piece's sum is multiplied by it before it is rounded, or null; with it
                                  ///< `sums`, too, are added to when not `first`
  const std::int32_t* rows_to =
      nullptr;                  ///< [rows] row of totals, or of scaled sums, that each row goes to; null: its own
  const float* bias = nullptr;  ///< [32 panels] added to sums at the end, or null
};

struct MatmulKernel {
  void (*run)(const MatmulBlock& block) = nullptr;
  std::int64_t tile_rows = 1;  ///< rows that one pass over the weights serves
  std::int64_t panels = 1;     ///< panels that are best done together for one row
  bool float_inputs = true;    ///< x is float32 even for bfloat16 weights
};

/// Kernels by weight type; each file of an instruction set has these three.
struct MatmulKernels {
  MatmulKernel float32;
  MatmulKernel float16;
  MatmulKernel bfloat16;
};

extern const MatmulKernels kScalarMatmul;
extern const MatmulKernels kAvx2Matmul;
extern const MatmulKernels kAvx512Matmul;
extern const MatmulKernel kAvx512Bf16Matmul;  ///< bfloat16 weights

}  // namespace tpinfer
