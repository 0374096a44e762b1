// Every other operation on a GPU against the CPU's.
#include <cmath>

#include "device_side.hpp"

namespace tpinfer::test {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::float16, DType::bfloat16};

/// What rounding to `dtype` may differ by where the numbers before it differ in the last bit.
float tolerance(DType dtype) { return dtype == DType::float32 ? 3e-6F : dtype == DType::float16 ? 1e-3F : 8e-3F; }

class Operations : public OnDevice {
 protected:
  /// The CPU has no float16 activations: there its results are compared unrounded.
  std::vector<float> norm(const Side& side, const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                          NormKind kind, bool biased, DType dtype) {
    const DeviceBuffer weight = side.array(random_values(cols, 21));
    const DeviceBuffer bias = side.array(random_values(cols, 22));
    const Held input = side.tensor(x, DType::float32, rows, cols);
    const Held out = side.room(side.activation(dtype), rows, cols);
    side->norm(input.tensor, {.kind = kind, .weight = weight.as<float>(), .bias = biased ? bias.as<float>() : nullptr},
               out.tensor);
    return side.floats(out.tensor);
  }
};

TEST_F(Operations, Norms) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t cols : {1, 31, 300, 1025}) {
      for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
        const std::vector<float> x = random_values(3 * cols, 20);
        const bool biased = kind == NormKind::layer;
        const std::vector<float> got = norm(gpu(), x, 3, cols, kind, biased, dtype);
        expect_close(got, norm(cpu(), x, 3, cols, kind, biased, dtype), tolerance(dtype), 1.0F);
        const std::vector<float> second(x.begin() + cols, x.begin() + 2 * cols);
        expect_rows(got, 1, 1, cols, norm(gpu(), second, 1, cols, kind, biased, dtype));
      }
    }
  }
}

TEST_F(Operations, AdditionsToTheResidualWithAndWithoutANormBehindThem) {
  const std::int64_t cols = 530;
  const std::vector<float> x = random_values(4 * cols, 23);
  const std::vector<float> total = random_values(4 * cols, 24);
  const DeviceBuffer weight[] = {gpu().array(random_values(cols, 25)), cpu().array(random_values(cols, 25))};
  for (const bool biased : {false, true}) {
    for (const bool followed : {false, true}) {
      std::vector<float> residuals[2];
      std::vector<float> norms[2];
      for (const int which : {0, 1}) {
        const Side& side = which == 0 ? gpu() : cpu();
        const Held residual = side.tensor(x, DType::float32, 4, cols);
        const DeviceBuffer sums = side.array(total);
        const DeviceBuffer bias = side.array(random_values(cols, 26));
        const Held out = side.tensor(x, DType::float32, 4, cols);
        side->add_residual(residual.tensor, sums.as<float>(), biased ? bias.as<float>() : nullptr, 1.0F);
        if (followed) side->norm(residual.tensor, {.weight = weight[which].as<float>()}, out.tensor);
        residuals[which] = side.floats(residual.tensor);
        norms[which] = side.floats(out.tensor);
      }
      EXPECT_EQ(residuals[0], residuals[1]);
      expect_close(norms[0], norms[1], 3e-6F, 1.0F);
    }
  }
}

TEST_F(Operations, AnAdditionIsThereForWhateverComesNext) {
  const Held residual = gpu().tensor({1, 2, 3, 4}, DType::float32, 2, 2);
  const Held other = gpu().tensor({5, 6, 7, 8}, DType::float32, 2, 2);
  const DeviceBuffer total = gpu().array(std::vector<float>{10, 20, 30, 40});
  const DeviceBuffer weight = gpu().array(std::vector<float>{1, 1});
  const Held out = gpu().room(DType::float32, 2, 2);
  gpu()->add_residual(residual.tensor, total.as<float>(), nullptr, 1.0F);
  gpu()->norm(other.tensor, {.weight = weight.as<float>()}, out.tensor);  // of another tensor
  gpu()->add_residual(residual.tensor, total.as<float>(), nullptr, 1.0F);
  gpu()->add_residual(residual.tensor, total.as<float>(), nullptr, 1.0F);
  EXPECT_EQ(gpu().floats(residual.tensor), (std::vector<float>{31, 62, 93, 124}));
  EXPECT_EQ(gpu().floats(other.tensor), (std::vector<float>{5, 6, 7, 8}));
}

TEST_F(Operations, Activations) {
  const std::int64_t width = 301;
  for (const DType dtype : kTypes) {
    for (const Activation act : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
      for (const bool gated : {false, true}) {
        const std::int64_t cols = gated ? 2 * width : width;
        const std::vector<float> x = random_values(3 * cols, 30, DType::float32, 6.0F);
        std::vector<float> results[2];
        for (const int which : {0, 1}) {
          const Side& side = which == 0 ? gpu() : cpu();
          const Held input = side.tensor(x, DType::float32, 3, cols);
          const Held out = side.room(side.activation(dtype), 3, width);
          side->activate(input.tensor, act, gated, out.tensor);
          results[which] = side.floats(out.tensor);
        }
        expect_close(results[0], results[1], tolerance(dtype), 1.0F);
      }
    }
  }
}

TEST_F(Operations, LookedUpAddedAndGatheredRows) {
  const std::int64_t cols = 300;
  for (const DType dtype : kTypes) {
    std::vector<float> table = random_values(5 * cols, 31, dtype);
    table[2 * 300 + 7] = -0.0F;
    const std::vector<std::int32_t> tokens{12, 9, 15, 10};  // of ids 10 .. 14 the rank has rows
    std::vector<std::vector<float>> results[2];
    for (const int which : {0, 1}) {
      const Side& side = which == 0 ? gpu() : cpu();
      const auto w = side.matrix(table, {.rows = 5, .cols = cols, .dtype = dtype, .lookup_only = true});
      const DeviceBuffer ids = side.array(tokens);
      const DeviceBuffer index = side.array(std::vector<std::int32_t>{3, 0, 3});
      for (const DType sums : {DType::float64, DType::float32}) {
        const Held partials = side.room(sums, 4, cols);
        side->embed(*w, 10, {.rows = 4, .tokens = ids.as<std::int32_t>()}, partials.tensor);
        results[which].push_back(side.floats(partials.tensor));
        EXPECT_FALSE(std::signbit(results[which].back()[7])) << "-0";
      }
      const Held residual = side.tensor(random_values(3 * cols, 32), DType::float32, 3, cols);
      side->add_rows(*w, 1, index.as<std::int32_t>(), residual.tensor);
      results[which].push_back(side.floats(residual.tensor));
      const Held x = side.tensor(random_values(6 * cols, 33), DType::float32, 6, cols);
      const Held out = side.room(DType::float32, 3, cols);
      side->gather_rows(x.tensor, index.as<std::int32_t>(), out.tensor);
      results[which].push_back(side.floats(out.tensor));
    }
    EXPECT_EQ(results[0], results[1]) << dtype_name(dtype);
  }
}

TEST_F(Operations, RotatedQueries) {
  const AttentionHeads heads{3, 1, 10};
  const std::int64_t positions = 20;
  for (const std::int64_t rotary : {0, 6, 10}) {
    std::vector<float> results[2];
    for (const int which : {0, 1}) {
      const Side& side = which == 0 ? gpu() : cpu();
      const auto kv = side->create_kv_store(
          {.layers = 1, .kv_heads = 1, .head_dim = 10, .block_size = 16, .blocks = 4, .dtype = DType::float32});
      const Held qkv = side.tensor(random_values(5 * heads.qkv_cols(), 34), DType::float32, 5, heads.qkv_cols());
      const DeviceBuffer cos = side.array(random_values(positions * 5, 35));
      const DeviceBuffer sin = side.array(random_values(positions * 5, 36));
      const DeviceBuffer at = side.array(std::vector<std::int32_t>{3, 4, 5, 0, 19});
      const DeviceBuffer slots = side.array(std::vector<std::int32_t>{3, 4, 5, 16, 63});
      const Held q = side.room(DType::float32, 5, 30);
      side->rotate_and_store(
          qkv.tensor, heads, rotary == 0 ? RopeTable{} : RopeTable{cos.as<float>(), sin.as<float>(), rotary},
          {.rows = 5, .positions = at.as<std::int32_t>(), .slots = slots.as<std::int32_t>()}, *kv, 0, q.tensor);
      results[which] = side.floats(q.tensor);
    }
    EXPECT_EQ(results[0], results[1]) << rotary;
  }
}

TEST_F(Operations, CopiedCacheBlocks) {
  // Positions 0 .. 15 in block 0; pairs go 0 -> 2 -> 1 -> 3, in this order.
  const AttentionHeads heads{1, 1, 8};
  std::vector<std::vector<float>> results[2];
  for (const int which : {0, 1}) {
    const Side& side = which == 0 ? gpu() : cpu();
    const auto kv = side->create_kv_store(
        {.layers = 2, .kv_heads = 1, .head_dim = 8, .block_size = 16, .blocks = 4, .dtype = DType::bfloat16});
    std::vector<std::int32_t> positions(16);
    for (int i = 0; i < 16; ++i) positions[static_cast<std::size_t>(i)] = i;
    const DeviceBuffer at = side.array(positions);
    const DeviceBuffer begin = side.array(std::vector<std::int32_t>{0, 16});
    const DeviceBuffer last = side.array(std::vector<std::int32_t>{0, 1});
    const Held qkv = side.tensor(random_values(16 * 24, 37), DType::float32, 16, 24);
    const Held q = side.room(DType::bfloat16, 16, 8);
    for (std::int64_t layer : {0, 1})
      side->rotate_and_store(qkv.tensor, heads, {},
                             {.rows = 16, .positions = at.as<std::int32_t>(), .slots = at.as<std::int32_t>()}, *kv,
                             layer, q.tensor);
    std::vector<std::int32_t> pairs{0, 2, 2, 1, 1, 3};
    side->copy_kv_blocks(*kv, pairs);
    std::fill(pairs.begin(), pairs.end(), -1);
    const DeviceBuffer position = side.array(std::vector<std::int32_t>{15});
    for (const std::int32_t block : {0, 1, 2, 3}) {
      const DeviceBuffer table = side.array(std::vector<std::int32_t>{block});
      const Held out = side.room(DType::bfloat16, 1, 8);
      side->attention(q.tensor.first(1), heads, {},
                      {.rows = 1,
                       .positions = position.as<std::int32_t>(),
                       .sequences = 1,
                       .row_begin = last.as<std::int32_t>(),
                       .block_table = table.as<std::int32_t>(),
                       .table_width = 1,
                       .max_context = 16,
                       .max_rows = 1},
                      *kv, 1, out.tensor);
      results[which].push_back(side.floats(out.tensor));
    }
  }
  for (int block = 1; block < 4; ++block) EXPECT_EQ(results[0][static_cast<std::size_t>(block)], results[0][0]);
  expect_close(results[0][0], results[1][0], 8e-3F, 1.0F);
}

}  // namespace
}  // namespace tpinfer::test
