#include "backend/cpu/product.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/vector_clones.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kInputBytes = 1 << 20;
constexpr std::int64_t kInputGap = 64;  // rows a power of two apart would share cache lines
/// Weights are fetched this far ahead when they pass by only once.
constexpr std::int64_t kFetchAhead = 4096;

const MatmulKernel& kernel_for(KernelSet set, DType dtype) {
  if (set == KernelSet::avx512_bf16 && dtype == DType::bfloat16) return kAvx512Bf16Matmul;
  const MatmulKernels& kernels = set == KernelSet::scalar ? kScalarMatmul
                                 : set == KernelSet::avx2 ? kAvx2Matmul
                                                          : kAvx512Matmul;
  return dtype == DType::float32 ? kernels.float32 : dtype == DType::float16 ? kernels.float16 : kernels.bfloat16;
}

Chunking chunking_for(const MatmulKernel& kernel, std::int64_t rows, const PartialSums& out) {
  if (rows <= kernel.tile_rows) return Chunking::whole;
  return out.totals != nullptr ? Chunking::exact : Chunking::plain;
}

TPINFER_VECTOR_CLONES("avx512f", "avx2", "default")
void widen_row(const std::uint16_t* halves, std::int64_t count, float* floats) {
  for (std::int64_t k = 0; k < count; ++k) floats[k] = bfloat16_to_float(halves[k]);
}

void check_inputs(const CpuMatrix& w, const Tensor& x) {
  const MatrixSpec& s = w.spec();
  const DType expected = s.dtype == DType::bfloat16 ? DType::bfloat16 : DType::float32;
  if (s.lookup_only || x.cols != s.cols || x.dtype != expected)
    throw Error(ExitCode::internal,
                fmt::format("inputs [{}, {}] of type {} for a product with weights [{}, {}] of type {}{}", x.rows,
                            x.cols, dtype_name(x.dtype), s.rows, s.cols, dtype_name(s.dtype),
                            s.lookup_only ? " that are only for lookup" : ""));
}

}  // namespace

/// What one thread has for a block of rows.
struct Product::Task {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< past its last panel
  ProductScratch& scratch;
  const ProductWindow* window = nullptr;
};

Product::Product(KernelSet set, const CpuMatrix& w, const ProductInputs& in, const float* bias, const PartialSums& out,
                 int threads)
    : kernel_(kernel_for(set, w.spec().dtype)),
      w_(w),
      in_(in),
      bias_(bias),
      out_(out),
      chunks_(w.chunks(chunking_for(kernel_, in.rows, out))) {
  check_inputs(w, *in.x);
  widen_ = in.x->dtype == DType::bfloat16 && kernel_.float_inputs;
  stage_ = widen_ || in.rows_of != nullptr;
  input_bytes_ = in.x->dtype == DType::float32 || widen_ ? 4 : 2;
  choose_row_block(threads);
}

void Product::choose_row_block(int threads) {
  const std::int64_t tile = kernel_.tile_rows;
  const std::int64_t fit = kInputBytes / (std::max<std::int64_t>(1, chunks_.longest) * input_bytes_);
  row_block_ = std::clamp(fit, std::min<std::int64_t>(2 * tile, kMostRowBlock), kMostRowBlock);
  if (w_.panels() * ((in_.rows + row_block_ - 1) / row_block_) < 4 * threads)  // too few panels to divide
    row_block_ = std::min(row_block_, 2 * tile);
  const std::int64_t blocks = std::max<std::int64_t>(1, (in_.rows + row_block_ - 1) / row_block_);
  row_block_ = std::max<std::int64_t>(1, (in_.rows + blocks - 1) / blocks);  // no small rest
}

std::uint64_t Product::most_scratch_bytes(std::int64_t cols) noexcept {
  constexpr std::int64_t kMostTile = 12;
  const std::int64_t inputs = std::max(kInputBytes, 2 * kMostTile * cols * 4);
  return static_cast<std::uint64_t>(inputs +
                                    kMostRowBlock * (kInputGap + kPanelRows * 12));  // and the last panel's outputs
}

void Product::run(ParallelFor& parallel, std::span<ProductScratch> scratch) const {
  const std::int64_t panels = w_.panels();
  const std::int64_t pieces = panels * ((in_.rows + row_block_ - 1) / row_block_);
  const std::int64_t threads = std::min<std::int64_t>(std::ssize(scratch), pieces);
  const auto do_share = [&](std::int64_t thread) {
    ProductScratch& own = scratch[static_cast<std::size_t>(thread)];
    own.begin();
    const std::int64_t end = pieces * (thread + 1) / threads;
    for (std::int64_t begin = pieces * thread / threads; begin < end;) {
      const std::int64_t block = begin / panels;
      const std::int64_t stop = std::min(end, (block + 1) * panels);
      const std::int64_t row = block * row_block_;
      run_block(row, std::min(row_block_, in_.rows - row), begin - block * panels, stop - block * panels, own);
      begin = stop;
    }
  };
  parallel.run(threads, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t thread = first; thread < last; ++thread) do_share(thread);
  });
}

void Product::run_block(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end,
                        ProductScratch& scratch, const ProductWindow* window) const {
  const Task task{row, rows, begin, end, scratch, window};
  const bool tail = window == nullptr && end == w_.panels() && w_.spec().rows % kPanelRows != 0;
  const auto tail_size = static_cast<std::size_t>(rows * kPanelRows);
  if (tail && out_.totals == nullptr) scratch.tail_sums_.assign(tail_size, 0.0F);
  if (tail && out_.totals != nullptr) scratch.tail_totals_.assign(tail_size, 0.0);
  if (tail && out_.accumulate) {
    copy_tail(task, scratch.tail_sums_.data(), out_.sums, false);
    copy_tail(task, scratch.tail_totals_.data(), out_.totals, false);
  }
  if (rows <= kernel_.tile_rows && chunks_.chunks.size() == 1) {  // the weights pass by once
    const std::int64_t together = rows == 1 ? kernel_.panels : 1;
    stage(task, 0, in_.x->cols);
    for (std::int64_t p = begin; p < end; p += together)
      run_panels(task, chunks_.chunks[0], p, std::min(together, end - p));
  } else {
    for (const MatmulChunk& chunk : chunks_.chunks) {
      stage(task, chunk.first_col, chunk.channels);
      for (std::int64_t p = begin; p < end; ++p) run_panels(task, chunk, p, 1);
    }
  }
  if (!tail) return;
  copy_tail(task, scratch.tail_sums_.data(), out_.sums, true);
  copy_tail(task, scratch.tail_totals_.data(), out_.totals, true);
}

void Product::run_panels(const Task& task, const MatmulChunk& chunk, std::int64_t panel, std::int64_t count) const {
  const bool tail = task.window == nullptr && panel + count == w_.panels() && w_.spec().rows % kPanelRows != 0;
  if (tail && count > 1) {  // the last panel has its outputs elsewhere
    run_panels(task, chunk, panel, count - 1);
    return run_panels(task, chunk, panel + count - 1, 1);
  }
  MatmulBlock block;
  block.weights = w_.panel(panel, chunk.offset);
  block.panel_bytes = w_.panel_bytes();
  block.panels = count;
  block.rows = task.rows;
  block.pieces = chunks_.pieces.data() + chunk.first_piece;
  block.piece_count = chunk.pieces;
  block.first = &chunk == chunks_.chunks.data() && !out_.accumulate;
  if (task.rows <= kernel_.tile_rows)
    block.next = block.weights + kFetchAhead;
  else
    block.next = panel + 1 < task.end ? block.weights + block.panel_bytes : block.weights;
  if (stage_) {
    block.x = task.scratch.inputs_.get() + (chunk.first_col - task.scratch.first_col_) * input_bytes_;
    block.x_stride = task.scratch.width_;
  } else {
    block.x = row_of_x(task.row) + chunk.first_col * input_bytes_;
    block.x_stride = in_.x->cols * input_bytes_;
  }
  set_outputs(task, block, panel, tail);
  if (!tail && &chunk == &chunks_.chunks.back() && bias_ != nullptr) block.bias = bias_ + panel * kPanelRows;
  kernel_.run(block);
}

void Product::set_outputs(const Task& task, MatmulBlock& block, std::int64_t panel, bool tail) const {
  if (out_.scales != nullptr) block.scales = out_.scales + task.row;
  std::int64_t at = task.row * w_.spec().rows + panel * kPanelRows;
  block.stride = w_.spec().rows;
  if (tail) {
    at = 0;
    block.stride = kPanelRows;
  } else if (task.window != nullptr) {
    block.sums = task.window->sums + (panel - task.begin) * kPanelRows;
    block.stride = task.window->stride;
    return;
  } else if (out_.rows != nullptr) {
    at = panel * kPanelRows;
    block.rows_to = out_.rows + task.row;
  }
  if (out_.totals != nullptr)
    block.totals = (tail ? task.scratch.tail_totals_.data() : out_.totals) + at;
  else
    block.sums = (tail ? task.scratch.tail_sums_.data() : out_.sums) + at;
}

// Between the last panel's outputs and their place; back to it with the bias. Null where the sums are of another type.
template <class Sum>
void Product::copy_tail(const Task& task, Sum* tail, Sum* out, bool back) const {
  if (out == nullptr) return;
  const std::int64_t first = (w_.panels() - 1) * kPanelRows;
  const std::int64_t count = w_.spec().rows - first;
  for (std::int64_t r = 0; r < task.rows; ++r) {
    const std::int64_t to = out_.rows != nullptr ? out_.rows[task.row + r] : task.row + r;
    Sum* there = out + to * w_.spec().rows + first;
    Sum* here = tail + r * kPanelRows;
    for (std::int64_t i = 0; i < count; ++i)
      if (!back)
        here[i] = there[i];
      else
        there[i] = bias_ != nullptr ? here[i] + static_cast<Sum>(bias_[first + i]) : here[i];
  }
}

const std::byte* Product::row_of_x(std::int64_t row) const noexcept {
  const std::int64_t from = in_.rows_of != nullptr ? in_.rows_of[row] : row;
  return static_cast<const std::byte*>(in_.x->data) +
         from * in_.x->cols * static_cast<std::int64_t>(dtype_size(in_.x->dtype));
}

// Columns [first_col, first_col + channels) of the task's rows, side by side and as the kernel wants them.
void Product::stage(const Task& task, std::int64_t first_col, std::int64_t channels) const {
  if (!stage_) return;
  ProductScratch& s = task.scratch;
  if (s.product_ == this && s.row_ == task.row && s.rows_ == task.rows && s.first_col_ == first_col) return;
  const std::int64_t width = channels * input_bytes_ + kInputGap;
  const auto needed = static_cast<std::size_t>(task.rows * width);
  if (s.input_bytes_ < needed) {
    s.inputs_ = std::make_unique_for_overwrite<std::byte[]>(needed);
    s.input_bytes_ = needed;
  }
  s.width_ = width;
  s.product_ = this;
  s.row_ = task.row;
  s.rows_ = task.rows;
  s.first_col_ = first_col;
  for (std::int64_t r = 0; r < task.rows; ++r) {
    const std::byte* in = row_of_x(task.row + r);
    std::byte* out = s.inputs_.get() + r * width;
    if (!widen_) {
      std::memcpy(out, in + first_col * input_bytes_, static_cast<std::size_t>(channels * input_bytes_));
      continue;
    }
    widen_row(reinterpret_cast<const std::uint16_t*>(in) + first_col, channels, reinterpret_cast<float*>(out));
  }
}

}  // namespace tpinfer
