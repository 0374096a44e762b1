#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernel_sets.hpp"

namespace tpinfer {
namespace {

std::vector<float> random_floats(std::size_t count, unsigned seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  for (float& v : values) v = normal(engine);
  return values;
}

/// A result of `rows` x `cols` with a guard behind it.
class Result {
 public:
  Result(std::int64_t rows, std::int64_t cols, DType dtype)
      : bytes_(static_cast<std::size_t>(rows * cols) * dtype_size(dtype) + 64, std::byte{0x5a}),
        tensor_{bytes_.data(), dtype, rows, cols} {}
  const Tensor& tensor() const { return tensor_; }
  float at(std::int64_t row, std::int64_t col) const {
    return load_element(bytes_.data(), tensor_.dtype, static_cast<std::size_t>(row * tensor_.cols + col));
  }
  bool guard_untouched() const {
    return std::all_of(bytes_.end() - 64, bytes_.end(), [](std::byte b) { return b == std::byte{0x5a}; });
  }
  bool same_row(std::int64_t row, const Result& other, std::int64_t other_row) const {
    const auto size = static_cast<std::size_t>(tensor_.cols) * dtype_size(tensor_.dtype);
    return std::memcmp(bytes_.data() + static_cast<std::size_t>(row) * size,
                       other.bytes_.data() + static_cast<std::size_t>(other_row) * size, size) == 0;
  }

 private:
  std::vector<std::byte> bytes_;
  Tensor tensor_;
};

class Elementwise : public testing::TestWithParam<KernelSet> {
 protected:
  std::unique_ptr<CpuBackend> one_ = make_cpu_backend(GetParam(), 1);
  std::unique_ptr<CpuBackend> three_ = make_cpu_backend(GetParam(), 3);
};

double reference_norm(const float* x, std::int64_t cols, const NormParams& params, std::int64_t col) {
  double mean = 0;
  for (std::int64_t c = 0; c < cols && params.kind == NormKind::layer; ++c) mean += x[c] / static_cast<double>(cols);
  double variance = 0;
  for (std::int64_t c = 0; c < cols; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(cols);
  const double y = (x[col] - mean) / std::sqrt(variance + params.epsilon) * params.weight[col];
  return y + (params.bias != nullptr ? params.bias[col] : 0.0F);
}

TEST_P(Elementwise, NormsMatchDoublePrecision) {
  for (const std::int64_t cols : {1, 15, 16, 48, 100, 2048}) {
    const auto size = static_cast<std::size_t>(cols);
    auto x = random_floats(3 * size, 1, 3.0F);
    for (std::size_t i = size; i < 2 * size; ++i) x[i] += 100.0F;  // a row with a large mean
    const auto weight = random_floats(size, 2);
    const auto bias = random_floats(size, 3);
    for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
      for (const DType dtype : {DType::float32, DType::bfloat16}) {
        const NormParams params{kind, weight.data(), kind == NormKind::layer ? bias.data() : nullptr, 1e-5F};
        const Result out(3, cols, dtype);
        one_->norm({x.data(), DType::float32, 3, cols}, params, out.tensor());
        EXPECT_TRUE(out.guard_untouched());
        for (std::int64_t i = 0; i<3 * cols; i += cols> 200 ? 31 : 1) {
          const double exact = reference_norm(x.data() + i / cols * cols, cols, params, i % cols);
          const double tolerance = dtype == DType::float32 ? 2e-5 : 1e-2;
          ASSERT_NEAR(out.at(i / cols, i % cols), exact, tolerance * (1 + std::fabs(exact))) << cols << " at " << i;
        }
      }
    }
  }
}

TEST_P(Elementwise, NormOfARowDoesNotDependOnTheOthersOrOnThreads) {
  const std::int64_t cols = 1000;
  auto x = random_floats(50 * cols, 4);
  const auto weight = random_floats(cols, 5);
  const NormParams params{NormKind::rms, weight.data(), nullptr, 1e-6F};
  const Result all(50, cols, DType::float32);
  three_->norm({x.data(), DType::float32, 50, cols}, params, all.tensor());
  for (std::int64_t row = 0; row < 50; ++row) {
    const Result alone(1, cols, DType::float32);
    one_->norm({x.data() + row * cols, DType::float32, 1, cols}, params, alone.tensor());
    EXPECT_TRUE(all.same_row(row, alone, 0));
  }
}

double reference_activation(Activation act, double x) {
  switch (act) {
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu: return std::max(x, 0.0);
  }
  return 0;
}

TEST_P(Elementwise, ActivationsMatchDoublePrecision) {
  for (const Activation act : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    for (const bool gated : {false, true}) {
      for (const std::int64_t width : {1, 7, 16, 33, 700}) {
        const std::int64_t cols = gated ? 2 * width : width;
        auto x = random_floats(static_cast<std::size_t>(4 * cols), 6, 4.0F);
        const Result out(4, width, DType::float32);
        const Result narrow(4, width, DType::bfloat16);
        one_->activate({x.data(), DType::float32, 4, cols}, act, gated, out.tensor());
        three_->activate({x.data(), DType::float32, 4, cols}, act, gated, narrow.tensor());
        EXPECT_TRUE(out.guard_untouched() && narrow.guard_untouched());
        for (std::int64_t i = 0; i < 4 * width; ++i) {
          const float* row = x.data() + i / width * cols;
          const double exact = reference_activation(act, row[i % width]) * (gated ? row[width + i % width] : 1.0F);
          ASSERT_NEAR(out.at(i / width, i % width), exact, 3e-6 * (1 + std::fabs(exact)));
          ASSERT_EQ(narrow.at(i / width, i % width),
                    bfloat16_to_float(float_to_bfloat16(out.at(i / width, i % width))));
        }
      }
    }
  }
}

TEST_P(Elementwise, ActivationsOfSpecialValues) {
  constexpr float kHuge = 3e38F;
  float x[] = {kHuge, -kHuge, 0.0F, NAN};
  for (const Activation act : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
    const Result out(1, 4, DType::float32);
    one_->activate({x, DType::float32, 1, 4}, act, false, out.tensor());
    EXPECT_EQ(out.at(0, 0), kHuge);
    EXPECT_EQ(out.at(0, 1), 0.0F);
    EXPECT_EQ(out.at(0, 2), 0.0F);
    EXPECT_TRUE(std::isnan(out.at(0, 3)));
  }
}

TEST_P(Elementwise, ResidualIsTheRowPlusTotalAndBias) {
  for (const std::int64_t rows : {1, 40}) {
    const std::int64_t cols = 1001;
    const auto size = static_cast<std::size_t>(rows * cols);
    const auto start = random_floats(size, 7);
    const auto total = random_floats(size, 8);
    const auto bias = random_floats(cols, 9);
    auto plain = start;
    auto with_bias = start;
    three_->add_residual({plain.data(), DType::float32, rows, cols}, total.data(), nullptr, 1.0F);
    three_->add_residual({with_bias.data(), DType::float32, rows, cols}, total.data(), bias.data(), 1.0F);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(plain[i], start[i] + total[i]);
      ASSERT_EQ(with_bias[i], start[i] + (total[i] + bias[i % cols]));
    }
  }
}

TEST_P(Elementwise, AdditionsAreScaledAndTakeABiasAlone) {
  auto scaled = random_floats(2 * 37, 11);
  auto bias_alone = scaled;
  const auto start = scaled;
  const auto total = random_floats(2 * 37, 12);
  const auto bias = random_floats(37, 13);
  one_->add_residual({scaled.data(), DType::float32, 2, 37}, total.data(), bias.data(), 0.22F);
  one_->add_residual({bias_alone.data(), DType::float32, 2, 37}, nullptr, bias.data(), 1.0F);
  for (std::size_t i = 0; i < start.size(); ++i) {
    ASSERT_EQ(scaled[i], start[i] + (total[i] + bias[i % 37]) * 0.22F);
    ASSERT_EQ(bias_alone[i], start[i] + bias[i % 37]);
  }
}

TEST_P(Elementwise, LearnedPositionsBeginAtARow) {
  const auto table = random_floats(6 * 9, 14);
  const auto matrix = one_->create_matrix({.rows = 6, .cols = 9, .lookup_only = true});
  one_->load_matrix(*matrix, 0, 0,
                    {.data = reinterpret_cast<const std::byte*>(table.data()),
                     .rows = 6,
                     .cols = 9,
                     .row_stride = 36,
                     .col_stride = 4});
  std::vector<float> residual(2 * 9, 1.0F);
  const std::int32_t index[] = {3, 0};
  one_->add_rows(*matrix, 2, index, {residual.data(), DType::float32, 2, 9});
  for (std::size_t c = 0; c < 9; ++c) {
    EXPECT_EQ(residual[c], 1.0F + table[5 * 9 + c]);
    EXPECT_EQ(residual[9 + c], 1.0F + table[2 * 9 + c]);
  }
}

TEST_P(Elementwise, AdjustScalesThenClipsThenCapsSoftly) {
  for (const std::int64_t cols : {1, 16, 45, 1500}) {
    for (const AdjustParams params : {AdjustParams{.scale = 0.0625F}, AdjustParams{.clip = 1.5F},
                                      AdjustParams{.soft_cap = 30.0F}, AdjustParams{3.0F, 4.0F, 2.0F}}) {
      EXPECT_TRUE(params.changes());
      const auto start = random_floats(static_cast<std::size_t>(3 * cols), 15, 20.0F);
      auto x = start;
      auto alone = start;
      three_->adjust({x.data(), DType::float32, 3, cols}, params);
      for (std::int64_t r = 0; r < 3; ++r) one_->adjust({alone.data() + r * cols, DType::float32, 1, cols}, params);
      EXPECT_EQ(x, alone);
      for (std::size_t i = 0; i < x.size(); ++i) {
        double exact = static_cast<double>(start[i] * params.scale);
        if (params.clip > 0) exact = std::clamp(exact, -1.0 * params.clip, 1.0 * params.clip);
        if (params.soft_cap > 0) exact = params.soft_cap * std::tanh(exact / params.soft_cap);
        ASSERT_NEAR(x[i], exact, 4e-7 * std::max(1.0, 1.0 * params.soft_cap)) << start[i];
      }
    }
  }
  float special[] = {NAN, INFINITY, -INFINITY};
  one_->adjust({special, DType::float32, 1, 3}, {1.0F, 5.0F, 0.0F});
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], 5.0F);
  EXPECT_EQ(special[2], -5.0F);
  EXPECT_FALSE(AdjustParams{}.changes());
}

// q and k of a row as separate rows of one head.
void expect_head_norm(const std::vector<float>& before, const std::vector<float>& after, const AttentionHeads& heads,
                      const HeadNormParams& params) {
  const std::int64_t dim = heads.head_dim;
  for (std::int64_t h = 0; h < heads.q_heads + 2 * heads.kv_heads; ++h) {
    const bool is_q = h < heads.q_heads;
    const bool is_v = h >= heads.q_heads + heads.kv_heads;
    const float* weight = is_q ? params.q_weight : params.k_weight;
    if (params.each_head) weight += (is_q ? h : h - heads.q_heads) * dim;
    for (std::int64_t c = 0; c < dim; ++c) {
      const float* head = before.data() + h * dim;
      const double exact =
          is_v ? head[c] : reference_norm(head, dim, {params.kind, weight, nullptr, params.epsilon}, c);
      ASSERT_NEAR(after[static_cast<std::size_t>(h * dim + c)], exact, is_v ? 0 : 1e-5 * (1 + std::fabs(exact))) << h;
    }
  }
}

TEST_P(Elementwise, HeadsOfQAndKAreNormedAndVIsLeftAlone) {
  const AttentionHeads heads{6, 3, 24};
  const auto q_weight = random_floats(6 * 24, 16);
  const auto k_weight = random_floats(3 * 24, 17);
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const bool each : {false, true}) {
      const HeadNormParams params{
          .kind = kind, .q_weight = q_weight.data(), .k_weight = k_weight.data(), .each_head = each};
      const auto before = random_floats(static_cast<std::size_t>(heads.qkv_cols()), 18, 3.0F);
      auto after = before;
      one_->norm_heads({after.data(), DType::float32, 1, heads.qkv_cols()}, heads, params);
      expect_head_norm(before, after, heads, params);
    }
  }
}

TEST_P(Elementwise, ANormOverAllHeadsIsTheSameHoweverTheyAreDivided) {
  const std::int64_t dim = 20;
  const auto q = random_floats(6 * 20, 19, 2.0F);
  const auto k = random_floats(2 * 20, 20, 2.0F);
  const auto weight = random_floats(6 * 20, 21);
  // ranks have query heads [0, 2), [2, 3), [3, 6), and so KV heads 0, 0, 1: head 0 is counted once
  struct Part {
    std::int64_t first, heads, kv, first_k;
  };
  const auto run = [&](const std::vector<Part>& parts, std::vector<float>& normed) {
    std::vector<std::vector<float>> rows;
    double sums[2] = {0, 0};
    for (const Part& part : parts) {
      const AttentionHeads heads{part.heads, parts.size() == 1 ? 2 : 1, dim};
      std::vector<float>& row = rows.emplace_back(static_cast<std::size_t>(heads.qkv_cols()));
      std::copy_n(q.begin() + part.first * dim, part.heads * dim, row.begin());
      std::copy_n(k.begin() + part.kv * dim, heads.kv_heads * dim, row.begin() + part.heads * dim);
      double own[2];
      one_->head_squares({row.data(), DType::float32, 1, heads.qkv_cols()}, heads, part.first_k,
                         {own, DType::float64, 1, 2});
      sums[0] += own[0];
      sums[1] += own[1];
    }
    const float squares[] = {static_cast<float>(sums[0]), static_cast<float>(sums[1])};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const AttentionHeads heads{parts[i].heads, parts.size() == 1 ? 2 : 1, dim};
      one_->norm_heads({rows[i].data(), DType::float32, 1, heads.qkv_cols()}, heads,
                       {.q_weight = weight.data() + parts[i].first * dim,
                        .k_weight = weight.data() + parts[i].kv * dim,
                        .squares = squares,
                        .q_cols = 6 * dim,
                        .k_cols = 2 * dim});
      normed.insert(normed.end(), rows[i].begin(), rows[i].begin() + parts[i].heads * dim);
    }
  };
  std::vector<float> whole;
  std::vector<float> divided;
  run({{0, 6, 0, 0}}, whole);
  run({{0, 2, 0, 0}, {2, 1, 0, 1}, {3, 3, 1, 0}}, divided);
  EXPECT_EQ(whole, divided);
  for (std::int64_t c = 0; c < 6 * dim; ++c)
    ASSERT_NEAR(whole[static_cast<std::size_t>(c)],
                reference_norm(q.data(), 6 * dim, {NormKind::rms, weight.data(), nullptr, 1e-5F}, c), 1e-5);
}

TEST_P(Elementwise, GatherTakesTheNamedRows) {
  auto x = random_floats(5 * 7, 10);
  const std::int32_t index[] = {4, 0, 4};
  const Result out(3, 7, DType::float32);
  one_->gather_rows({x.data(), DType::float32, 5, 7}, index, out.tensor());
  for (std::int64_t i = 0; i < 21; ++i)
    EXPECT_EQ(out.at(i / 7, i % 7), x[static_cast<std::size_t>(index[i / 7] * 7 + i % 7)]);
}

INSTANTIATE_TEST_SUITE_P(Sets, Elementwise, testing::ValuesIn(test::usable_sets()),
                         [](const auto& named) { return test::test_name(named.param); });

}  // namespace
}  // namespace tpinfer
