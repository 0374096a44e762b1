#include "backend/cpu/matmul.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/cpu/matmul_kernel.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

/// For many rows the channels are done in chunks of about this many: the inputs of a block of rows and the weights of a
/// panel then stay in the second level cache together.
constexpr std::int64_t kChunk = 2048;
constexpr std::int64_t kRowBlock = 128;
constexpr std::int64_t kInputBytes = 1 << 20;
/// Weights are fetched this far ahead when they pass by only once.
constexpr std::int64_t kFetchAhead = 4096;

const MatmulKernel& kernel_for(KernelSet set, DType dtype) {
  if (set == KernelSet::avx512_bf16 && dtype == DType::bfloat16) return kAvx512Bf16Matmul;
  const MatmulKernels& kernels = set == KernelSet::scalar ? kScalarMatmul
                                 : set == KernelSet::avx2 ? kAvx2Matmul
                                                          : kAvx512Matmul;
  return dtype == DType::float32 ? kernels.float32 : dtype == DType::float16 ? kernels.float16 : kernels.bfloat16;
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

/// Channels that are done at a time: some leaves, or part of one.
struct Chunk {
  std::int64_t first_col = 0;
  std::int64_t channels = 0;
  std::int64_t offset = 0;  ///< channel in the panel
  std::vector<MatmulPiece> pieces;
};

/// One product, divided into blocks of rows x panels x chunks.
class Product {
 public:
  Product(KernelSet set, const CpuMatrix& w, const Tensor& x, const float* bias, float* y, const PartialSums& partials)
      : kernel_(kernel_for(set, w.spec().dtype)), w_(w), x_(x), bias_(bias), y_(y), partials_(partials) {
    widen_ = x.dtype == DType::bfloat16 && kernel_.float_inputs;
    input_bytes_ = x.dtype == DType::float32 || widen_ ? 4 : 2;
    make_chunks();
  }

  void run(ParallelFor& parallel) {
    choose_row_block(parallel.threads());
    const std::int64_t panels = w_.panels();
    const std::int64_t row_blocks = (x_.rows + row_block_ - 1) / row_block_;
    parallel.run(panels * row_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const std::int64_t block = begin / panels;
        const std::int64_t stop = std::min(end, (block + 1) * panels);
        const std::int64_t row = block * row_block_;
        run_rows(row, std::min(row_block_, x_.rows - row), begin - block * panels, stop - block * panels);
        begin = stop;
      }
    });
  }

 private:
  struct Task;

  void make_chunks() {
    const std::int64_t most = x_.rows <= kernel_.tile_rows ? x_.cols : kChunk;
    for (const Leaf& leaf : w_.leaves()) {
      // A leaf of a row-parallel matrix is never divided: its sum has nowhere to wait.
      const std::int64_t part = y_ == nullptr ? leaf.channels : most;
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

  void choose_row_block(int threads) {
    std::int64_t longest = 1;
    for (const Chunk& c : chunks_) longest = std::max(longest, c.channels);
    const std::int64_t tile = kernel_.tile_rows;
    const std::int64_t fit = kInputBytes / (longest * input_bytes_);
    row_block_ = std::clamp(fit, std::min<std::int64_t>(2 * tile, kRowBlock), kRowBlock);
    if (w_.panels() * ((x_.rows + row_block_ - 1) / row_block_) < 4 * threads)  // too few panels to divide
      row_block_ = std::min(row_block_, 2 * tile);
  }

  /// Rows [row, row + rows) x panels [begin, end).
  void run_rows(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) const;
  void run_panels(const Task& task, const Chunk& chunk, std::int64_t panel, std::int64_t count) const;
  void set_outputs(const Task& task, MatmulBlock& block, std::int64_t panel, bool tail) const;
  void copy_tail(const Task& task) const;
  /// Element of the totals that lane 0 of the last panel's row has.
  double* tail_place(const Task& task, std::int64_t row) const;
  void widen(Task& task, std::int64_t first_col, std::int64_t channels) const;

  const MatmulKernel& kernel_;
  const CpuMatrix& w_;
  const Tensor& x_;
  const float* bias_;
  float* y_;              ///< or
  PartialSums partials_;  ///< has no totals
  std::vector<Chunk> chunks_;
  std::int64_t row_block_ = 1;
  std::int64_t input_bytes_ = 4;
  bool widen_ = false;  ///< the kernel wants bfloat16 inputs as float32
};

/// What one thread has for a block of rows.
struct Product::Task {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t end = 0;                       ///< past its last panel
  std::unique_ptr<float[]> inputs = nullptr;  ///< [rows, width] when widened
  std::int64_t width = 0;
  std::int64_t inputs_col = 0;                   ///< column of x at which `inputs` begins
  std::unique_ptr<float[]> tail_sums = nullptr;  ///< [rows, 32] outputs of a last panel that is not full
  std::unique_ptr<double[]> tail_totals = nullptr;
};

void Product::run_rows(std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end) const {
  Task task{.row = row, .rows = rows, .end = end};
  const bool tail = end == w_.panels() && w_.spec().rows % kPanelRows != 0;
  const auto tail_size = static_cast<std::size_t>(rows * kPanelRows);
  if (tail && y_ != nullptr) task.tail_sums = std::make_unique<float[]>(tail_size);
  if (tail && y_ == nullptr) task.tail_totals = std::make_unique<double[]>(tail_size);
  if (tail && y_ == nullptr && partials_.accumulate)
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(tail_place(task, r), w_.spec().rows % kPanelRows, task.tail_totals.get() + r * kPanelRows);

  if (rows <= kernel_.tile_rows && chunks_.size() == 1) {  // the weights pass by once
    const std::int64_t together = rows == 1 ? kernel_.panels : 1;
    if (widen_) widen(task, 0, x_.cols);
    for (std::int64_t p = begin; p < end; p += together) run_panels(task, chunks_[0], p, std::min(together, end - p));
  } else {
    for (const Chunk& chunk : chunks_) {
      if (widen_) widen(task, chunk.first_col, chunk.channels);
      for (std::int64_t p = begin; p < end; ++p) run_panels(task, chunk, p, 1);
    }
  }
  if (tail) copy_tail(task);
}

void Product::run_panels(const Task& task, const Chunk& chunk, std::int64_t panel, std::int64_t count) const {
  const bool tail = panel + count == w_.panels() && w_.spec().rows % kPanelRows != 0;
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
  block.first = &chunk == chunks_.data() && !partials_.accumulate;
  if (task.rows <= kernel_.tile_rows)
    block.next = block.weights + kFetchAhead;
  else
    block.next = panel + 1 < task.end ? block.weights + block.panel_bytes : block.weights;
  if (widen_) {
    block.x = reinterpret_cast<const std::byte*>(task.inputs.get() + chunk.first_col - task.inputs_col);
    block.x_stride = task.width * 4;
  } else {
    block.x_stride = x_.cols * input_bytes_;
    block.x = static_cast<const std::byte*>(x_.data) + task.row * block.x_stride + chunk.first_col * input_bytes_;
  }
  set_outputs(task, block, panel, tail);
  if (!tail && &chunk == &chunks_.back() && bias_ != nullptr) block.bias = bias_ + panel * kPanelRows;
  kernel_.run(block);
}

void Product::set_outputs(const Task& task, MatmulBlock& block, std::int64_t panel, bool tail) const {
  const std::int64_t at = task.row * w_.spec().rows + panel * kPanelRows;
  block.stride = tail ? kPanelRows : w_.spec().rows;
  if (y_ != nullptr) {
    block.sums = tail ? task.tail_sums.get() : y_ + at;
    return;
  }
  if (partials_.scales != nullptr) block.scales = partials_.scales + task.row;
  block.totals = tail ? task.tail_totals.get() : partials_.totals + at;
  if (tail || partials_.rows == nullptr) return;
  block.rows_to = partials_.rows + task.row;
  block.totals = partials_.totals + panel * kPanelRows;
}

double* Product::tail_place(const Task& task, std::int64_t row) const {
  const std::int64_t to = partials_.rows != nullptr ? partials_.rows[task.row + row] : task.row + row;
  return partials_.totals + to * w_.spec().rows + (w_.panels() - 1) * kPanelRows;
}

void Product::copy_tail(const Task& task) const {
  const std::int64_t first = (w_.panels() - 1) * kPanelRows;
  const std::int64_t count = w_.spec().rows - first;
  for (std::int64_t r = 0; r < task.rows; ++r) {
    if (y_ == nullptr) {
      std::copy_n(task.tail_totals.get() + r * kPanelRows, count, tail_place(task, r));
      continue;
    }
    const float* from = task.tail_sums.get() + r * kPanelRows;
    float* to = y_ + (task.row + r) * w_.spec().rows + first;
    for (std::int64_t i = 0; i < count; ++i) to[i] = bias_ != nullptr ? from[i] + bias_[first + i] : from[i];
  }
}

void Product::widen(Task& task, std::int64_t first_col, std::int64_t channels) const {
  constexpr std::int64_t kGap = 16;  // rows a power of two apart would share cache lines
  task.inputs_col = first_col;
  if (task.inputs == nullptr || task.width < channels + kGap) {
    task.width = channels + kGap;
    task.inputs = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(task.rows * task.width));
  }
  for (std::int64_t r = 0; r < task.rows; ++r) {
    const auto* in = static_cast<const std::uint16_t*>(x_.data) + (task.row + r) * x_.cols + first_col;
    float* out = task.inputs.get() + r * task.width;
    for (std::int64_t k = 0; k < channels; ++k) out[k] = bfloat16_to_float(in[k]);
  }
}

}  // namespace

void cpu_matmul(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x, const float* bias,
                const Tensor& y) {
  if (y.rows != x.rows || y.cols != w.spec().rows || y.dtype != DType::float32)
    throw Error(ExitCode::internal,
                fmt::format("outputs [{}, {}] of type {} for a product of {} rows with weights "
                            "[{}, {}]",
                            y.rows, y.cols, dtype_name(y.dtype), x.rows, w.spec().rows, w.spec().cols));
  check_inputs(w, x);
  if (x.rows == 0 || w.spec().rows == 0) return;
  if (!w.leaves().empty()) return Product(set, w, x, bias, y.floats(), {}).run(parallel);
  for (std::int64_t r = 0; r < y.rows; ++r)
    for (std::int64_t c = 0; c < y.cols; ++c) y.floats()[r * y.cols + c] = bias != nullptr ? 0.0F + bias[c] : 0.0F;
}

void cpu_matmul_partial(KernelSet set, ParallelFor& parallel, const CpuMatrix& w, const Tensor& x,
                        const PartialSums& sums) {
  check_inputs(w, x);
  if (x.rows == 0 || w.spec().rows == 0) return;
  if (!w.leaves().empty()) return Product(set, w, x, nullptr, nullptr, sums).run(parallel);
  for (std::int64_t r = 0; !sums.accumulate && r < x.rows; ++r)
    std::fill_n(sums.totals + (sums.rows != nullptr ? sums.rows[r] : r) * w.spec().rows, w.spec().rows, 0.0);
}

}  // namespace tpinfer
