#include "runtime/finite.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace tpinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A stored matrix [rows, cols] inside one with `stride` columns; one byte off, as headers of odd length make it.
class Stored {
 public:
  Stored(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : bytes_(static_cast<std::size_t>(rows * stride) * dtype_size(dtype) + 1), stride_(stride) {
    const auto element = static_cast<std::int64_t>(dtype_size(dtype));
    matrix = {bytes_.data() + 1, dtype, rows, cols, stride * element, element};
    // the largest finite value everywhere, which is next to infinity
    const float most = dtype == DType::float16 ? 65504.0F : 3.38e38F;
    for (std::int64_t i = 0; i < rows * stride; ++i) set(i / stride, i % stride, i % 2 ? most : -most);
  }

  void set(std::int64_t row, std::int64_t col, float value) {
    const auto at = static_cast<std::size_t>(row * stride_ + col) * dtype_size(matrix.dtype) + 1;
    const std::uint16_t half = matrix.dtype == DType::float16 ? float_to_float16(value) : float_to_bfloat16(value);
    if (matrix.dtype == DType::float32)
      std::memcpy(bytes_.data() + at, &value, sizeof value);
    else
      std::memcpy(bytes_.data() + at, &half, sizeof half);
  }

  // -> row * cols + col of what is found, or -1
  std::int64_t found() const {
    const std::byte* at = find_non_finite(matrix);
    if (!at) return -1;
    const std::int64_t offset = at - matrix.data;
    return offset / matrix.row_stride * matrix.cols + offset % matrix.row_stride / matrix.col_stride;
  }

  StoredMatrix matrix;

 private:
  std::vector<std::byte> bytes_;
  std::int64_t stride_;
};

TEST(Finite, TheFirstBadElementIsFoundInEveryTypeAndLayout) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16})
    for (const std::int64_t cols : {1, 31, 4096, 5000})
      for (const std::int64_t stride : {cols, cols + 3}) {
        Stored stored(dtype, 3, cols, stride);
        EXPECT_EQ(stored.found(), -1);
        if (stride > cols) stored.set(0, cols, kNaN);  // not in the matrix
        EXPECT_EQ(stored.found(), -1);
        for (const auto& [row, col, value] : {std::tuple(std::int64_t{2}, cols - 1, kNaN),
                                              {1, cols / 2, kInfinity},
                                              {1, 0, -kInfinity},
                                              {0, cols - 1, -kNaN}}) {
          stored.set(row, col, value);
          EXPECT_EQ(stored.found(), row * cols + col) << dtype_name(dtype) << " " << cols << " " << stride;
        }
      }
}

}  // namespace
}  // namespace tpinfer
