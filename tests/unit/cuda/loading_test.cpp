// Weights on their way to a GPU: every stored type and layout, blocks of a matrix, and what memory they take.
#include <cmath>

#include "device_side.hpp"

namespace tpinfer::test {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::float16, DType::bfloat16};

class Loading : public OnDevice {
 protected:
  /// What the matrix holds: the product with unit vectors.
  std::vector<float> contents(const PackedMatrix& w) {
    const MatrixSpec& spec = w.spec();
    std::vector<float> ids(static_cast<std::size_t>(spec.rows));
    std::vector<std::int32_t> tokens;
    for (std::int32_t r = 0; r < spec.rows; ++r) tokens.push_back(r);
    const DeviceBuffer on_device = gpu().array(tokens);
    const Held out = gpu().room(DType::float32, spec.rows, spec.cols);
    gpu()->embed(w, 0, {.rows = spec.rows, .tokens = on_device.as<std::int32_t>()}, out.tensor);
    return gpu().floats(out.tensor);
  }
};

TEST_F(Loading, EveryStoredTypeAndLayoutBecomesTheComputeType) {
  const std::int64_t rows = 75;
  const std::int64_t cols = 70;
  for (const DType stored : kTypes) {
    for (const DType compute : kTypes) {
      for (const int layout : {0, 1, 2}) {  // rows adjacent; columns adjacent; every second element
        SCOPED_TRACE(testing::Message() << dtype_name(stored) << " as " << dtype_name(compute) << ", layout "
                                        << layout);
        const std::vector<float> values = random_values(rows * cols * 2, 40, stored);
        const std::vector<std::byte> bytes = encoded(values, stored);
        const auto size = static_cast<std::int64_t>(dtype_size(stored));
        const std::int64_t row_step = layout == 0 ? cols : layout == 1 ? 1 : 2 * cols;
        const std::int64_t col_step = layout == 0 ? 1 : layout == 1 ? rows : 2;
        const auto w = gpu()->create_matrix({.rows = rows + 2, .cols = cols + 3, .dtype = compute});
        gpu()->load_matrix(*w, 1, 2,
                           {.data = bytes.data(),
                            .dtype = stored,
                            .rows = rows,
                            .cols = cols,
                            .row_stride = row_step * size,
                            .col_stride = col_step * size});
        std::vector<float> want(static_cast<std::size_t>((rows + 2) * (cols + 3)));
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c) {
            const std::vector<std::byte> one =
                encoded({values[static_cast<std::size_t>(r * row_step + c * col_step)]}, compute);
            want[static_cast<std::size_t>((r + 1) * (cols + 3) + c + 2)] = load_element(one.data(), compute, 0);
          }
        EXPECT_EQ(contents(*w), want);
      }
    }
  }
}

TEST_F(Loading, MoreThanTheStagingMemoryHolds) {
  // 40 MiB through a ring of 32 MiB, dense, and as columns that are converted.
  const std::int64_t rows = 20;
  const std::int64_t cols = 1 << 20;
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
  for (const bool transposed : {false, true}) {
    const DType stored = transposed ? DType::float32 : DType::bfloat16;
    const std::vector<std::byte> bytes = encoded(values, stored);
    const auto size = static_cast<std::int64_t>(dtype_size(stored));
    const auto w = gpu()->create_matrix({.rows = rows, .cols = cols, .dtype = DType::bfloat16});
    gpu()->load_matrix(*w, 0, 0,
                       {.data = bytes.data(),
                        .dtype = stored,
                        .rows = rows,
                        .cols = cols,
                        .row_stride = transposed ? size : cols * size,
                        .col_stride = transposed ? rows * size : size});
    const std::vector<float> got = contents(*w);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; c += 997)
        ASSERT_EQ(got[static_cast<std::size_t>(r * cols + c)],
                  values[static_cast<std::size_t>(transposed ? c * rows + r : r * cols + c)])
            << r << ", " << c;
  }
}

TEST_F(Loading, MatricesTakeTheirBytesAndLittleMore) {
  std::size_t free_before = 0;
  std::size_t total = 0;
  gpu()->synchronize();
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  std::size_t planned = 0;
  for (int i = 0; i < 100; ++i) {
    matrices.push_back(gpu()->create_matrix({.rows = 300, .cols = 1000 + i, .dtype = DType::bfloat16}));
    planned += static_cast<std::size_t>(300 * (1000 + i) * 2);
    EXPECT_EQ(matrices.back()->bytes(), static_cast<std::size_t>(300 * (1000 + i) * 2));
  }
  const std::vector<std::byte> row = encoded(random_values(1000, 41), DType::bfloat16);
  gpu()->load_matrix(
      *matrices[0], 0, 0,
      {.data = row.data(), .dtype = DType::bfloat16, .rows = 1, .cols = 1000, .row_stride = 2000, .col_stride = 2});
  std::size_t free_after = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_GE(free_before - free_after, planned);
  EXPECT_LE(free_before - free_after, planned + (std::size_t{2} << 20) + planned / 100);
}

TEST_F(Loading, WhatDoesNotFitIsSaidInOneSentence) {
  try {
    const auto w = gpu()->create_matrix({.rows = 1 << 20, .cols = 1 << 22, .dtype = DType::bfloat16});
    gpu()->load_matrix(
        *w, 0, 0, {.data = nullptr, .dtype = DType::bfloat16, .rows = 1, .cols = 1, .row_stride = 2, .col_stride = 2});
    FAIL() << "8 TiB fitted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_NE(std::string(error.what()).find("has no room for"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tpinfer::test
