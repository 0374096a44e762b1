#include <algorithm>
#include <cstring>

#include "backend/cuda/cuda_backend.hpp"

namespace tpinfer {
namespace {

/// Stored elements in the order that they lie in: `lines` of `length` adjacent elements.
struct Lines {
  const std::byte* data;
  std::int64_t lines;
  std::int64_t length;
  std::int64_t line_stride;
  std::int64_t element_stride;  ///< the element's size, unless neither rows nor columns are adjacent
  std::int64_t size;            ///< of an element
};

Lines lines_of(const StoredMatrix& from, bool transposed) {
  const auto size = static_cast<std::int64_t>(dtype_size(from.dtype));
  if (transposed) return {from.data, from.cols, from.rows, from.col_stride, from.row_stride, size};
  return {from.data, from.rows, from.cols, from.row_stride, from.col_stride, size};
}

/// Columns lie together, rows do not.
bool is_transposed(const StoredMatrix& from) {
  const auto size = static_cast<std::int64_t>(dtype_size(from.dtype));
  return from.col_stride != size && from.row_stride == size;
}

/// Elements [begin, begin + count) of lines [first, last) to `to`, densely.
void gather(const Lines& from, std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t count,
            std::byte* to) {
  for (std::int64_t line = first; line < last; ++line) {
    const std::byte* source = from.data + line * from.line_stride + begin * from.element_stride;
    if (from.element_stride == from.size) {
      std::memcpy(to, source, static_cast<std::size_t>(count * from.size));
      to += count * from.size;
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i, to += from.size)
      std::memcpy(to, source + i * from.element_stride, static_cast<std::size_t>(from.size));
  }
}

/// Calls use(first line, lines, first element, elements) for tiles of at most `capacity` elements that cover all.
template <class Use>
void each_tile(const Lines& from, std::int64_t capacity, const Use& use) {
  const std::int64_t length = std::min(from.length, capacity);
  const std::int64_t lines = std::min(capacity / length, from.lines);
  for (std::int64_t line = 0; line < from.lines; line += lines)
    for (std::int64_t begin = 0; begin < from.length; begin += length)
      use(line, std::min(lines, from.lines - line), begin, std::min(length, from.length - begin));
}

/// Fills `to` with a tile, every thread some lines of it.
void fill(ParallelFor& team, const Lines& from, std::int64_t line, std::int64_t lines, std::int64_t begin,
          std::int64_t count, std::byte* to) {
  team.run(lines, 1, [&](std::int64_t first, std::int64_t last) {
    gather(from, line + first, line + last, begin, count, to + first * count * from.size);
  });
}

}  // namespace

void CudaBackend::load_matrix(PackedMatrix& matrix, std::int64_t first_row, std::int64_t first_col,
                              const StoredMatrix& from) {
  settle();
  const MatrixSpec& spec = matrix.spec();
  if (!is_weight_type(from.dtype))
    throw Error(ExitCode::internal, fmt::format("weights cannot be of type {}", dtype_name(from.dtype)));
  if (first_row < 0 || first_col < 0 || first_row + from.rows > spec.rows || first_col + from.cols > spec.cols)
    throw Error(ExitCode::internal, fmt::format("a block of [{}, {}] at ({}, {}) does not lie in a matrix of [{}, {}]",
                                                from.rows, from.cols, first_row, first_col, spec.rows, spec.cols));
  if (from.rows == 0 || from.cols == 0) return;
  std::byte* to = dynamic_cast<CudaMatrix&>(matrix).data() +
                  (first_row * spec.cols + first_col) * static_cast<std::int64_t>(dtype_size(spec.dtype));
  wait_for(copy_.get(), compute_.get());  // the matrix is zeroed there
  if (from.dtype == spec.dtype && !is_transposed(from))
    upload_dense(to, spec.cols, spec.dtype, from);
  else
    upload_converted(to, spec.cols, spec.dtype, from);
  wait_for(compute_.get(), copy_.get());
}

void CudaBackend::upload_dense(std::byte* to, std::int64_t to_cols, DType dtype, const StoredMatrix& from) {
  const Lines lines = lines_of(from, false);
  const auto size = static_cast<std::int64_t>(dtype_size(dtype));
  const auto pitch = static_cast<std::size_t>(to_cols * size);
  each_tile(lines, static_cast<std::int64_t>(ring_.segment_bytes()) / size,
            [&](std::int64_t line, std::int64_t count, std::int64_t begin, std::int64_t length) {
              std::byte* segment = ring_.acquire();
              fill(team_, lines, line, count, begin, length, segment);
              const auto width = static_cast<std::size_t>(length * size);
              check(cudaMemcpy2DAsync(to + (line * to_cols + begin) * size, pitch, segment, width, width,
                                      static_cast<std::size_t>(count), cudaMemcpyHostToDevice, copy_.get()),
                    "copying weights to the device");
              ring_.submit(copy_.get());
            });
}

void CudaBackend::upload_converted(std::byte* to, std::int64_t to_cols, DType dtype, const StoredMatrix& from) {
  const bool transposed = is_transposed(from);
  const Lines lines = lines_of(from, transposed);
  auto* stored = static_cast<std::byte*>(stored_.reserve(ring_.segments() * ring_.segment_bytes(), copy_.get()));
  each_tile(lines, static_cast<std::int64_t>(ring_.segment_bytes()) / lines.size,
            [&](std::int64_t line, std::int64_t count, std::int64_t begin, std::int64_t length) {
              std::byte* segment = ring_.acquire();
              std::byte* device = stored + ring_.current() * ring_.segment_bytes();
              fill(team_, lines, line, count, begin, length, segment);
              check(cudaMemcpyAsync(device, segment, static_cast<std::size_t>(count * length * lines.size),
                                    cudaMemcpyHostToDevice, copy_.get()),
                    "copying weights to the device");
              cuda::convert({.data = device,
                             .dtype = from.dtype,
                             .rows = transposed ? length : count,
                             .cols = transposed ? count : length,
                             .transposed = transposed},
                            to, dtype, to_cols, transposed ? begin : line, transposed ? line : begin, copy_.get());
              ring_.submit(copy_.get());
            });
}

}  // namespace tpinfer
