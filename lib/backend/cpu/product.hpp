#pragma once

#include <span>

#include "backend/cpu/matmul.hpp"
#include "backend/cpu/matmul_kernel.hpp"
#include "backend/cpu/product_scratch.hpp"

namespace tpinfer {

/// Inputs of a product: rows of x, all of them or those that are named.
struct ProductInputs {
  const Tensor* x = nullptr;
  const std::int32_t* rows_of = nullptr;  ///< [rows] the row of x of each row of the product; null: its own number
  std::int64_t rows = 0;
};

/// Where a block of plain sums goes instead of its place in the whole: sums[(row - first row of the block) * stride +
/// column - 32 * first panel of the block].
struct ProductWindow {
  float* sums = nullptr;
  std::int64_t stride = 0;
};

/// One product x w^T, divided into blocks of rows x panels x chunks of channels. What it is made of must outlive it. It
/// takes no memory of its own.
class Product {
 public:
  /// Bytes that a scratch may come to hold for inputs of up to `cols` channels.
  static std::uint64_t most_scratch_bytes(std::int64_t cols) noexcept;
  static constexpr std::int64_t kMostRowBlock = 128;

  /// `out` with sums or totals; Error(internal) for inputs that do not fit w.
  Product(KernelSet set, const CpuMatrix& w, const ProductInputs& in, const float* bias, const PartialSums& out,
          int threads);

  std::int64_t panels() const noexcept { return w_.panels(); }
  std::int64_t rows() const noexcept { return in_.rows; }
  /// Rows that are best done together.
  std::int64_t row_block() const noexcept { return row_block_; }
  /// Panels that are best done together.
  std::int64_t panel_group() const noexcept { return in_.rows == 1 ? kernel_.panels : 1; }

  /// All of it, a part on each thread that has a scratch.
  void run(ParallelFor& parallel, std::span<ProductScratch> scratch) const;
  /// Rows [row, row + rows) x panels [begin, end), on this thread.
  void run_block(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end, ProductScratch& scratch,
                 const ProductWindow* window = nullptr) const;

 private:
  struct Task;

  void choose_row_block(int threads);
  void run_panels(const Task& task, const MatmulChunk& chunk, std::int64_t panel, std::int64_t count) const;
  void set_outputs(const Task& task, MatmulBlock& block, std::int64_t panel, bool tail) const;
  template <class Sum>
  void copy_tail(const Task& task, Sum* tail, Sum* out, bool back) const;
  void stage(const Task& task, std::int64_t first_col, std::int64_t channels) const;
  const std::byte* row_of_x(std::int64_t row) const noexcept;

  const MatmulKernel& kernel_;
  const CpuMatrix& w_;
  ProductInputs in_;
  const float* bias_;
  PartialSums out_;
  const MatmulChunks& chunks_;
  std::int64_t row_block_ = 1;
  std::int64_t input_bytes_ = 4;  ///< of an element as the kernel reads it
  bool widen_ = false;            ///< the kernel wants bfloat16 inputs as float32
  bool stage_ = false;            ///< inputs are copied: widened, or gathered
};

}  // namespace tpinfer
