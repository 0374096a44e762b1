// Products on a GPU against the CPU's, over shapes that fill no tile, and their bits against the same rows alone.
#include <cmath>

#include "device_side.hpp"

namespace tpinfer::test {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::float16, DType::bfloat16};

struct Shape {
  std::int64_t rows;
  std::int64_t outputs;
  std::int64_t cols;
  std::vector<std::int64_t> leaf_ends = {};
};

class Products : public OnDevice {
 protected:
  /// Result of w x^T (+ bias) for rows [first, first + rows) of x.
  std::vector<float> product(const Side& side, const PackedMatrix& w, const std::vector<float>& x, std::int64_t first,
                             std::int64_t rows, const std::vector<float>& bias) {
    const std::int64_t cols = w.spec().cols;
    const std::vector<float> part(x.begin() + first * cols, x.begin() + (first + rows) * cols);
    const Held input = side.tensor(part, side.activation(w.spec().dtype), rows, cols);
    const DeviceBuffer device_bias = side.array(bias);
    const Held y = side.room(DType::float32, rows, w.spec().rows);
    side->matmul(w, input.tensor, bias.empty() ? nullptr : device_bias.as<float>(), y.tensor);
    return side.floats(y.tensor);
  }
  /// Row-parallel, as bytes of the partial sums.
  std::vector<double> partial(const Side& side, const PackedMatrix& w, const std::vector<float>& x, std::int64_t rows) {
    const std::int64_t cols = w.spec().cols;
    const std::vector<float> part(x.begin(), x.begin() + rows * cols);
    const Held input = side.tensor(part, side.activation(w.spec().dtype), rows, cols);
    const Held sums = side.room(DType::float64, rows, w.spec().rows);
    side->matmul_partial(w, input.tensor, sums.tensor);
    return side.download<double>(sums.tensor.data, rows * w.spec().rows);
  }
};

TEST_F(Products, AgreeWithTheCpuOverOddShapes) {
  const Shape shapes[] = {{1, 16, 32},  {1, 5, 7},     {3, 33, 100},  {8, 17, 264},  {9, 48, 40},
                          {16, 20, 31}, {33, 70, 136}, {65, 130, 72}, {130, 65, 96}, {2, 1, 1}};
  for (const DType dtype : kTypes) {
    for (const Shape& s : shapes) {
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << s.rows << " x " << s.cols << " -> " << s.outputs);
      const std::vector<float> w = random_values(s.outputs * s.cols, 1, dtype);
      const std::vector<float> x = random_values(s.rows * s.cols, 2, dtype);
      const std::vector<float> bias = random_values(s.outputs, 3);
      const MatrixSpec spec{.rows = s.outputs, .cols = s.cols, .dtype = dtype};
      expect_close(product(gpu(), *gpu().matrix(w, spec), x, 0, s.rows, bias),
                   product(cpu(), *cpu().matrix(w, spec), x, 0, s.rows, bias), 2e-6F, std::sqrt(float(s.cols)));
    }
  }
}

TEST_F(Products, ARowHasTheSameBitsInEveryBatch) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t cols : {608, 611}) {
      const std::int64_t outputs = 136;
      const std::int64_t most = dtype == DType::float32 ? 40 : 200;
      const std::vector<float> x = random_values(most * cols, 4, dtype);
      const auto w =
          gpu().matrix(random_values(outputs * cols, 5, dtype), {.rows = outputs, .cols = cols, .dtype = dtype});
      const std::vector<float> all = product(gpu(), *w, x, 0, most, {});
      for (const std::int64_t rows : {1, 7, 16, 20, 40, 66, 129}) {
        if (rows > most) continue;
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << rows << " rows of " << cols);
        expect_rows(all, 0, rows, outputs, product(gpu(), *w, x, 0, rows, {}));
        expect_rows(all, most - rows, rows, outputs, product(gpu(), *w, x, most - rows, rows, {}));
      }
    }
  }
}

TEST_F(Products, SumsOverLeavesAreThoseOfTheirRanks) {
  // Two ranks have the columns up to and from 112, or 5; together they have the leaves of one.
  const Shape shapes[] = {{150, 70, 240, {48, 112, 240}}, {5, 40, 240, {48, 112, 240}}, {20, 30, 23, {3, 5, 11, 23}}};
  for (const DType dtype : kTypes) {
    for (const Shape& s : shapes) {
      if (dtype == DType::float32 && s.rows > 100) continue;
      SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " " << s.rows << " x " << s.cols);
      const std::int64_t cut = s.leaf_ends[1];
      const std::vector<float> w = random_values(s.outputs * s.cols, 6, dtype);
      const std::vector<float> x = random_values(s.rows * s.cols, 7, dtype);
      const auto columns = [](const std::vector<float>& from, std::int64_t cols, std::int64_t begin, std::int64_t end) {
        std::vector<float> to;
        for (std::size_t at = 0; at < from.size(); at += static_cast<std::size_t>(cols))
          to.insert(to.end(), from.begin() + static_cast<std::int64_t>(at) + begin,
                    from.begin() + static_cast<std::int64_t>(at) + end);
        return to;
      };
      const auto sums_of = [&](const Side& side, std::int64_t begin, std::int64_t end, std::int64_t rows) {
        MatrixSpec spec{.rows = s.outputs, .cols = end - begin, .dtype = dtype};
        for (const std::int64_t leaf : s.leaf_ends)
          if (leaf > begin && leaf <= end) spec.leaf_ends.push_back(leaf - begin);
        return partial(side, *side.matrix(columns(w, s.cols, begin, end), spec), columns(x, s.cols, begin, end), rows);
      };
      const std::vector<double> whole = sums_of(gpu(), 0, s.cols, s.rows);
      const std::vector<double> first = sums_of(gpu(), 0, cut, s.rows);
      const std::vector<double> second = sums_of(gpu(), cut, s.cols, s.rows);
      const std::vector<double> one_row = sums_of(gpu(), 0, s.cols, 1);
      const std::vector<double> reference = sums_of(cpu(), 0, s.cols, s.rows);
      for (std::size_t i = 0; i < whole.size(); ++i) {
        ASSERT_EQ(whole[i], first[i] + second[i]) << i;
        ASSERT_EQ(whole[i], std::nearbyint(whole[i] * 0x1p28) * 0x1p-28) << "not on the grid";
        ASSERT_NEAR(whole[i], reference[i], 1e-5 * std::sqrt(double(s.cols)));
      }
      EXPECT_TRUE(std::equal(one_row.begin(), one_row.end(), whole.begin()));
    }
  }
}

TEST_F(Products, PartialsInFloat32AndMatricesWithoutColumns) {
  const std::vector<float> w = random_values(24 * 64, 8, DType::bfloat16);
  const std::vector<float> x = random_values(6 * 64, 9, DType::bfloat16);
  const auto split = gpu().matrix(w, {.rows = 24, .cols = 64, .dtype = DType::bfloat16, .leaf_ends = {16, 64}});
  const auto plain = gpu().matrix(w, {.rows = 24, .cols = 64, .dtype = DType::bfloat16});
  const Held input = gpu().tensor(x, DType::bfloat16, 6, 64);
  const Held sums = gpu().room(DType::float32, 6, 24);
  gpu()->matmul_partial(*split, input.tensor, sums.tensor);
  EXPECT_EQ(gpu().floats(sums.tensor), product(gpu(), *plain, x, 0, 6, {}));

  const auto empty = gpu()->create_matrix({.rows = 24, .cols = 0, .dtype = DType::bfloat16});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Held zeros = gpu().room(dtype, 6, 24);
    gpu()->matmul_partial(*empty, {input.tensor.data, DType::bfloat16, 6, 0}, zeros.tensor);
    EXPECT_EQ(gpu().floats(zeros.tensor), std::vector<float>(6 * 24));
  }
}

TEST_F(Products, InAnyOrderTheyComeFromCublas) {
  const Side free(std::make_unique<CudaBackend>(GpuOptions{.any_order = true}));
  for (const DType dtype : kTypes) {
    for (const std::int64_t rows : {1, 5, 70}) {
      const std::vector<float> w = random_values(40 * 64, 10, dtype);
      const std::vector<float> x = random_values(rows * 64, 11, dtype);
      const std::vector<float> bias = random_values(40, 12);
      const MatrixSpec spec{.rows = 40, .cols = 64, .dtype = dtype};
      expect_close(product(free, *free.matrix(w, spec), x, 0, rows, bias),
                   product(cpu(), *cpu().matrix(w, spec), x, 0, rows, bias), 2e-6F, 8.0F);
    }
  }
}

}  // namespace
}  // namespace tpinfer::test
