#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/factory.hpp"

namespace tpinfer::test {

inline std::vector<std::byte> encoded(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = dtype == DType::bfloat16 ? float_to_bfloat16(values[i]) : float_to_float16(values[i]);
    if (dtype == DType::float32)
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    else
      std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

/// In (-scale, scale), values that `dtype` has.
inline std::vector<float> random_values(std::int64_t count, unsigned seed, DType dtype = DType::float32,
                                        float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = uniform(engine);
  const std::vector<std::byte> bytes = encoded(values, dtype);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_element(bytes.data(), dtype, i);
  return values;
}

/// A tensor and its memory.
struct Held {
  DeviceBuffer buffer;
  Tensor tensor;
};

/// One backend as a test uses it: the CPU's or a GPU's.
class Side {
 public:
  explicit Side(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  Backend& operator*() const { return *backend_; }
  Backend* operator->() const { return backend_.get(); }
  DType activation(DType compute) const { return backend_->activation_dtype(compute); }

  Held tensor(const std::vector<float>& values, DType dtype, std::int64_t rows, std::int64_t cols) const {
    Held held = room(dtype, rows, cols);
    const std::vector<std::byte> bytes = encoded(values, dtype);
    backend_->copy_to_device(held.buffer.data(), bytes.data(), bytes.size());
    return held;
  }
  /// Filled with NaN: what is not written shows.
  Held room(DType dtype, std::int64_t rows, std::int64_t cols) const {
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * dtype_size(dtype);
    Held held{DeviceBuffer(*backend_, bytes + 16), {}};
    held.tensor = {held.buffer.data(), dtype, rows, cols};
    const std::vector<std::byte> filling(bytes, std::byte{0xff});
    backend_->copy_to_device(held.buffer.data(), filling.data(), bytes);
    return held;
  }
  template <class T>
  DeviceBuffer array(const std::vector<T>& values) const {
    DeviceBuffer buffer(*backend_, values.size() * sizeof(T) + 16);
    backend_->copy_to_device(buffer.data(), values.data(), values.size() * sizeof(T));
    return buffer;
  }
  template <class T>
  std::vector<T> download(const void* data, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    backend_->copy_to_host(values.data(), data, values.size() * sizeof(T));
    backend_->synchronize();
    return values;
  }
  std::vector<float> floats(const Tensor& t) const {
    const std::vector<std::byte> bytes = download<std::byte>(t.data, static_cast<std::int64_t>(t.bytes()));
    std::vector<float> values(static_cast<std::size_t>(t.rows * t.cols));
    for (std::size_t i = 0; i < values.size(); ++i) {
      double wide = 0;
      if (t.dtype == DType::float64) std::memcpy(&wide, bytes.data() + 8 * i, 8);
      values[i] = t.dtype == DType::float64 ? static_cast<float>(wide) : load_element(bytes.data(), t.dtype, i);
    }
    return values;
  }
  std::unique_ptr<PackedMatrix> matrix(const std::vector<float>& values, const MatrixSpec& spec) const {
    std::unique_ptr<PackedMatrix> made = backend_->create_matrix(spec);
    const std::vector<std::byte> bytes = encoded(values, spec.dtype);
    const auto size = static_cast<std::int64_t>(dtype_size(spec.dtype));
    backend_->load_matrix(*made, 0, 0,
                          {.data = bytes.data(),
                           .dtype = spec.dtype,
                           .rows = spec.rows,
                           .cols = spec.cols,
                           .row_stride = spec.cols * size,
                           .col_stride = size});
    backend_->synchronize();
    return made;
  }

 private:
  std::unique_ptr<Backend> backend_;
};

/// A GPU, emulated where the build is of that kind, and the CPU's plainest kernels to compare it with.
class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_available()) GTEST_SKIP() << cuda_reason();
    gpu_ = std::make_unique<Side>(std::make_unique<CudaBackend>(GpuOptions{.threads = 2}));
    cpu_ = std::make_unique<Side>(make_cpu_backend(KernelSet::scalar, 1));
  }

  const Side& gpu() const { return *gpu_; }
  const Side& cpu() const { return *cpu_; }

 private:
  std::unique_ptr<Side> gpu_;
  std::unique_ptr<Side> cpu_;
};

/// |got - want| <= relative * (|want| + floor) everywhere.
inline void expect_close(const std::vector<float>& got, const std::vector<float>& want, float relative, float floor) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - want[i]), relative * (std::abs(want[i]) + floor))
        << "at " << i << ": " << got[i] << " instead of " << want[i];
}

/// Bit for bit: rows [first, first + count) of `all` [.., cols] are `some`.
inline void expect_rows(const std::vector<float>& all, std::int64_t first, std::int64_t count, std::int64_t cols,
                        const std::vector<float>& some) {
  ASSERT_GE(some.size(), static_cast<std::size_t>(count * cols));
  EXPECT_EQ(std::memcmp(all.data() + first * cols, some.data(), static_cast<std::size_t>(count * cols) * sizeof(float)),
            0)
      << count << " rows from " << first;
}

}  // namespace tpinfer::test
