// The operations that the CUDA backend has, against plain loops. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "expect_error.hpp"

namespace tpinfer {
namespace {

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU on this machine";
    backend_ = std::make_unique<CudaBackend>(0);
  }

  template <class T>
  DeviceBuffer upload(const std::vector<T>& values) {
    DeviceBuffer buffer(*backend_, values.size() * sizeof(T));
    backend_->copy_to_device(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  template <class T>
  std::vector<T> download(const void* data, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    backend_->copy_to_host(values.data(), data, values.size() * sizeof(T));
    backend_->synchronize();
    return values;
  }
  /// [rows, cols] in (-1, 1), multiples of 1/128: exact in every weight type.
  static std::vector<float> numbers(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (float& value : values) {
      seed = seed * 1664525U + 1013904223U;
      value = (static_cast<float>(seed >> 24) - 127.5F) / 128.0F;
    }
    return values;
  }
  std::unique_ptr<PackedMatrix> matrix(const std::vector<float>& values, std::int64_t rows, std::int64_t cols,
                                       DType dtype) {
    std::unique_ptr<PackedMatrix> result =
        backend_->create_matrix({.rows = rows, .cols = cols, .dtype = dtype, .leaf_ends = {}});
    backend_->load_matrix(*result, 0, 0,
                          {.data = reinterpret_cast<const std::byte*>(values.data()),
                           .dtype = DType::float32,
                           .rows = rows,
                           .cols = cols,
                           .row_stride = cols * 4,
                           .col_stride = 4});
    return result;
  }

  std::unique_ptr<CudaBackend> backend_;
};

TEST_F(CudaDevice, MemoryIsZeroedAndCopiesLeaveTheirSourceFree) {
  const std::int64_t count = 5'000'001;  // more than the whole staging ring
  DeviceBuffer buffer(*backend_, static_cast<std::size_t>(count) * 4);
  EXPECT_EQ(download<float>(buffer.data(), count), std::vector<float>(static_cast<std::size_t>(count)));
  const std::vector<float> values = numbers(count, 1, 1);
  std::vector<float> changed = values;
  backend_->copy_to_device(buffer.data(), changed.data(), buffer.bytes());
  changed.assign(changed.size(), -1.0F);
  EXPECT_EQ(download<float>(buffer.data(), count), values);
  EXPECT_EQ(backend_->info().kind, "cuda");
  expect_error(ExitCode::does_not_fit, [&] { backend_->allocate(std::size_t{1} << 50); });
}

TEST_F(CudaDevice, NormsAgreeWithALoop) {
  const std::int64_t rows = 3;
  const std::int64_t cols = 700;
  const std::vector<float> x = numbers(rows, cols, 2);
  const std::vector<float> weight = numbers(1, cols, 3);
  const DeviceBuffer x_buffer = upload(x);
  const DeviceBuffer weight_buffer = upload(weight);
  const DeviceBuffer out(*backend_, static_cast<std::size_t>(rows * cols) * 4);
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    backend_->norm({x_buffer.data(), DType::float32, rows, cols}, {.kind = kind, .weight = weight_buffer.as<float>()},
                   {out.data(), DType::float32, rows, cols});
    const std::vector<float> got = download<float>(out.data(), rows * cols);
    for (std::int64_t r = 0; r < rows; ++r) {
      double mean = 0;
      double squares = 0;
      const float* row = x.data() + r * cols;
      for (std::int64_t c = 0; c < cols; ++c) mean += static_cast<double>(row[c]) / static_cast<double>(cols);
      if (kind == NormKind::rms) mean = 0;
      for (std::int64_t c = 0; c < cols; ++c) squares += std::pow(static_cast<double>(row[c]) - mean, 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
      for (std::int64_t c = 0; c < cols; ++c)
        ASSERT_NEAR(
            static_cast<double>(got[static_cast<std::size_t>(r * cols + c)]),
            (static_cast<double>(row[c]) - mean) * scale * static_cast<double>(weight[static_cast<std::size_t>(c)]),
            1e-5);
    }
  }
}

TEST_F(CudaDevice, ProductsAgreeWithALoopAndRowsDoNotSeeEachOther) {
  const std::int64_t rows = 300;
  const std::int64_t out_cols = 96;
  const std::int64_t cols = 256;
  const std::vector<float> w = numbers(out_cols, cols, 4);
  const std::vector<float> x = numbers(rows, cols, 5);
  const DeviceBuffer bias = upload(numbers(1, out_cols, 6));
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    const std::unique_ptr<PackedMatrix> weights = matrix(w, out_cols, cols, dtype);
    std::vector<std::byte> typed(x.size() * dtype_size(dtype));
    convert_row({.data = reinterpret_cast<const std::byte*>(x.data()),
                 .dtype = DType::float32,
                 .rows = 1,
                 .cols = rows * cols,
                 .row_stride = 0,
                 .col_stride = 4},
                0, 0, rows * cols, dtype, typed.data());
    const DeviceBuffer x_buffer = upload(typed);
    const DeviceBuffer y_buffer(*backend_, static_cast<std::size_t>(rows * out_cols) * 4);
    const Tensor x_all{x_buffer.data(), dtype, rows, cols};
    const Tensor y_all{y_buffer.data(), DType::float32, rows, out_cols};
    backend_->matmul(*weights, x_all, nullptr, y_all);
    const std::vector<float> all = download<float>(y_buffer.data(), rows * out_cols);
    for (std::int64_t r = 0; r < rows; r += 37)
      for (std::int64_t o = 0; o < out_cols; ++o) {
        double sum = 0;
        for (std::int64_t c = 0; c < cols; ++c)
          sum += static_cast<double>(x[static_cast<std::size_t>(r * cols + c)]) *
                 static_cast<double>(w[static_cast<std::size_t>(o * cols + c)]);
        ASSERT_NEAR(static_cast<double>(all[static_cast<std::size_t>(r * out_cols + o)]), sum, 1e-4);
      }
    for (const std::int64_t few : {1, 3, 64}) {
      backend_->matmul(*weights, x_all.first(few), nullptr, y_all.first(few));
      const std::vector<float> part = download<float>(y_buffer.data(), few * out_cols);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin())) << dtype_name(dtype) << ", " << few << " rows";
    }
    backend_->matmul(*weights, x_all.first(1), bias.as<float>(), y_all.first(1));
    const std::vector<float> biased = download<float>(y_buffer.data(), out_cols);
    const std::vector<float> added = numbers(1, out_cols, 6);
    for (std::size_t o = 0; o < added.size(); ++o) EXPECT_EQ(biased[o], all[o] + added[o]);
  }
}

TEST_F(CudaDevice, RowsAreLookedUpAddedActivatedAndGathered) {
  const std::int64_t cols = 300;
  const std::vector<float> table = numbers(5, cols, 7);
  const std::unique_ptr<PackedMatrix> weights = matrix(table, 5, cols, DType::bfloat16);
  const std::vector<std::int32_t> tokens{12, 9, 15, 10};  // of ids 10 .. 14 the rank has rows
  const DeviceBuffer ids = upload(tokens);
  const DeviceBuffer partials(*backend_, static_cast<std::size_t>(4 * cols) * 8);
  backend_->embed(*weights, 10, {.rows = 4, .tokens = ids.as<std::int32_t>()}, partials.as<double>());
  const std::vector<double> looked = download<double>(partials.data(), 4 * cols);

  const DeviceBuffer x = upload(table);
  const DeviceBuffer index = upload(std::vector<std::int32_t>{4, 0});
  const DeviceBuffer out(*backend_, static_cast<std::size_t>(2 * cols) * 4);
  const Tensor two{out.data(), DType::float32, 2, cols};
  backend_->gather_rows({x.data(), DType::float32, 5, cols}, index.as<std::int32_t>(), two);
  backend_->add_residual(two, x.as<float>(), x.as<float>());  // rows 0, 1 and as bias row 0
  const std::vector<float> sums = download<float>(out.data(), 2 * cols);

  const DeviceBuffer act(*backend_, static_cast<std::size_t>(5 * cols / 2) * 4);
  backend_->activate({x.data(), DType::float32, 5, cols}, Activation::silu, true,
                     {act.data(), DType::float32, 5, cols / 2});
  const std::vector<float> gated = download<float>(act.data(), 5 * cols / 2);

  const auto at = [&](std::int64_t row, std::int64_t col) { return table[static_cast<std::size_t>(row * cols + col)]; };
  for (std::int64_t c = 0; c < cols; ++c) {
    const auto i = static_cast<std::size_t>(c);
    const auto n = static_cast<std::size_t>(cols);
    EXPECT_EQ(looked[i], static_cast<double>(at(2, c)));
    EXPECT_EQ(looked[n + i], 0.0);
    EXPECT_EQ(looked[2 * n + i], 0.0);
    EXPECT_EQ(looked[3 * n + i], static_cast<double>(at(0, c)));
    EXPECT_EQ(sums[i], at(4, c) + (at(0, c) + at(0, c)));
    EXPECT_EQ(sums[n + i], at(0, c) + (at(1, c) + at(0, c)));
    if (c < cols / 2) {
      EXPECT_NEAR(gated[i], at(0, c) / (1 + std::exp(-at(0, c))) * at(0, cols / 2 + c), 1e-6F);
    }
  }
}

TEST_F(CudaDevice, WhatIsMissingSaysSo) {
  const std::string text = expect_error(
      ExitCode::usage, [&] { backend_->attention({}, {}, {}, {}, *backend_->create_kv_store({}), 0, {}); });
  EXPECT_NE(text.find("cannot compute attention yet"), std::string::npos) << text;
}

}  // namespace
}  // namespace tpinfer
