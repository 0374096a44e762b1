#include "backend/cpu/product.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace tpinfer {
namespace {

/// For many rows the channels are done in chunks of about this many: the inputs of a block of rows and the weights of a
/// panel then stay in the second level cache together.
constexpr std::int64_t kChunk = 2048;
/// Exact sums are fetched and put back at every chunk, and take twice the room.
constexpr std::int64_t kExactChunk = 4096;
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

#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
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
  Scratch& scratch;
  const ProductWindow* window = nullptr;
};

Product::Product(KernelSet set, const CpuMatrix& w, const ProductInputs& in, const float* bias, const PartialSums& out,
                 int threads)
    : kernel_(kernel_for(set, w.spec().dtype)), w_(w), in_(in), bias_(bias), out_(out) {
  check_inputs(w, *in.x);
  widen_ = in.x->dtype == DType::bfloat16 && kernel_.float_inputs;
  stage_ = widen_ || in.rows_of != nullptr;
  input_bytes_ = in.x->dtype == DType::float32 || widen_ ? 4 : 2;
  make_chunks();
  choose_row_block(threads);
}

void Product::make_chunks() {
  const std::int64_t most = in_.rows <= kernel_.tile_rows ? w_.spec().cols
                            : out_.totals != nullptr      ? kExactChunk
                                                          : kChunk;
  for (const Leaf& leaf : w_.leaves()) {
    // A leaf of an exact sum is never divided: its sum has nowhere to wait.
    const std::int64_t part = out_.totals != nullptr ? leaf.channels : most;
    for (std::int64_t k = 0; k < leaf.channels; k += part) {
      const std::int64_t channels = std::min(part, leaf.channels - k);
      if (chunks_.empty() || chunks_.back().channels + channels > most)
        chunks_.push_back({leaf.first_col + k, 0, leaf.offset + k, {}});
      Chunk& chunk = chunks_.back();
      chunk.pieces.push_back({leaf.offset + k - chunk.offset, leaf.first_col + k - chunk.first_col, channels});
      chunk.channels += channels;
    }
  }
}

void Product::choose_row_block(int threads) {
  std::int64_t longest = 1;
  for (const Chunk& c : chunks_) longest = std::max(longest, c.channels);
  const std::int64_t tile = kernel_.tile_rows;
  const std::int64_t fit = kInputBytes / (longest * input_bytes_);
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

void Product::run(ParallelFor& parallel) const {
  const std::int64_t panels = w_.panels();
  const std::int64_t row_blocks = (in_.rows + row_block_ - 1) / row_block_;
  parallel.run(panels * row_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch;
    while (begin < end) {
      const std::int64_t block = begin / panels;
      const std::int64_t stop = std::min(end, (block + 1) * panels);
      const std::int64_t row = block * row_block_;
      run_block(row, std::min(row_block_, in_.rows - row), begin - block * panels, stop - block * panels, scratch);
      begin = stop;
    }
  });
}

void Product::run_block(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end, Scratch& scratch,
                        const ProductWindow* window) const {
  const Task task{row, rows, begin, end, scratch, window};
  const bool tail = window == nullptr && end == w_.panels() && w_.spec().rows % kPanelRows != 0;
  const auto tail_size = static_cast<std::size_t>(rows * kPanelRows);
  if (tail && out_.totals == nullptr) scratch.tail_sums_ = std::make_unique<float[]>(tail_size);
  if (tail && out_.totals != nullptr) scratch.tail_totals_ = std::make_unique<double[]>(tail_size);
  if (tail && out_.accumulate) {
    copy_tail(task, scratch.tail_sums_.get(), out_.sums, false);
    copy_tail(task, scratch.tail_totals_.get(), out_.totals, false);
  }
  if (rows <= kernel_.tile_rows && chunks_.size() == 1) {  // the weights pass by once
    const std::int64_t together = rows == 1 ? kernel_.panels : 1;
    stage(task, 0, in_.x->cols);
    for (std::int64_t p = begin; p < end; p += together) run_panels(task, chunks_[0], p, std::min(together, end - p));
  } else {
    for (const Chunk& chunk : chunks_) {
      stage(task, chunk.first_col, chunk.channels);
      for (std::int64_t p = begin; p < end; ++p) run_panels(task, chunk, p, 1);
    }
  }
  if (!tail) return;
  copy_tail(task, scratch.tail_sums_.get(), out_.sums, true);
  copy_tail(task, scratch.tail_totals_.get(), out_.totals, true);
}

void Product::run_panels(const Task& task, const Chunk& chunk, std::int64_t panel, std::int64_t count) const {
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
  block.pieces = chunk.pieces.data();
  block.piece_count = static_cast<std::int64_t>(chunk.pieces.size());
  block.first = &chunk == chunks_.data() && !out_.accumulate;
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
  if (!tail && &chunk == &chunks_.back() && bias_ != nullptr) block.bias = bias_ + panel * kPanelRows;
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
    block.totals = (tail ? task.scratch.tail_totals_.get() : out_.totals) + at;
  else
    block.sums = (tail ? task.scratch.tail_sums_.get() : out_.sums) + at;
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
  Scratch& s = task.scratch;
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
