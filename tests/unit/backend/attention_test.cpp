#include <gtest/gtest.h>

#include <cmath>

#include "attention_run.hpp"
#include "core/error.hpp"
#include "kernel_sets.hpp"

namespace tpinfer {
namespace {

using test::AttentionRun;
using test::Setting;

float rounded(float x, DType dtype) {
  if (dtype == DType::bfloat16) return bfloat16_to_float(float_to_bfloat16(x));
  if (dtype == DType::float16) return float16_to_float(float_to_float16(x));
  return x;
}

/// One output row in double precision over the rounded queries, keys and values: blocks of 256 positions, weights
/// rounded to bfloat16 in a bfloat16 cache.
std::vector<double> reference_row(const Setting& setting, std::int64_t sequence, std::int64_t position) {
  const AttentionHeads& heads = setting.heads;
  const std::int64_t first = setting.window > 0 ? std::max<std::int64_t>(0, position + 1 - setting.window) : 0;
  std::vector<std::vector<float>> rows;
  for (std::int64_t p = first; p <= position; ++p) rows.push_back(test::qkv_row(sequence, p, heads.qkv_cols()));
  std::vector<double> out;
  for (std::int64_t h = 0; h < heads.q_heads; ++h) {
    const std::int64_t kv = h / (heads.q_heads / heads.kv_heads);
    const auto q_type = setting.dtype == DType::bfloat16 ? DType::bfloat16 : DType::float32;
    const auto channel = [&](std::size_t i, std::int64_t head, std::int64_t c, DType type) {
      return static_cast<double>(rounded(rows[i][static_cast<std::size_t>(head * heads.head_dim + c)], type));
    };
    std::vector<double> scores(rows.size(), 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::int64_t c = 0; c < heads.head_dim; ++c)
        scores[i] += channel(rows.size() - 1, h, c, q_type) * channel(i, heads.q_heads + kv, c, setting.dtype);
      scores[i] *= static_cast<double>(setting.scale);
      const auto cap = static_cast<double>(setting.soft_cap);
      if (cap > 0) scores[i] = cap * std::tanh(scores[i] / cap);
      if (!setting.slopes.empty())
        scores[i] += static_cast<double>(setting.slopes[static_cast<std::size_t>(h)]) *
                     (static_cast<double>(i) - static_cast<double>(rows.size() - 1));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    std::vector<double> values(static_cast<std::size_t>(heads.head_dim), 0.0);
    double sum = 0;
    for (std::size_t begin = 0; begin < rows.size();) {
      const auto block_end =
          static_cast<std::size_t>((first + static_cast<std::int64_t>(begin)) / 256 * 256 + 256 - first);
      const std::size_t end = std::min(block_end, rows.size());
      const double block_top = *std::max_element(scores.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 scores.begin() + static_cast<std::ptrdiff_t>(end));
      for (; begin < end; ++begin) {
        const double weight = std::exp(scores[begin] - block_top);
        sum += weight * std::exp(block_top - top);
        const double used = setting.dtype == DType::bfloat16
                                ? static_cast<double>(rounded(static_cast<float>(weight), DType::bfloat16))
                                : weight;
        for (std::int64_t c = 0; c < heads.head_dim; ++c)
          values[static_cast<std::size_t>(c)] +=
              used * std::exp(block_top - top) * channel(begin, heads.q_heads + heads.kv_heads + kv, c, setting.dtype);
      }
    }
    for (const double v : values) out.push_back(v / sum);
  }
  return out;
}

class Attention : public testing::TestWithParam<std::tuple<KernelSet, DType>> {
 protected:
  Setting setting() const { return {.set = std::get<0>(GetParam()), .dtype = std::get<1>(GetParam())}; }

  /// Compares rows of a whole prefill with the reference; bfloat16 results must mostly have the same bits.
  static void compare(const Setting& setting, std::int64_t length, const std::vector<std::int64_t>& positions) {
    AttentionRun run(setting, 1, length);
    run.run_sequence(0, length, length);
    const bool narrow = setting.dtype == DType::bfloat16;
    const bool bent = setting.soft_cap > 0 || !setting.slopes.empty();
    std::size_t equal = 0;
    std::size_t all = 0;
    for (const std::int64_t position : positions) {
      const auto exact = reference_row(setting, 0, position);
      for (std::size_t c = 0; c < exact.size(); ++c, ++all) {
        const float got = run.at(0, position, static_cast<std::int64_t>(c));
        // the hyperbolic tangent is exact to a few units of the last place, which may round a weight the other way
        const double tolerance = narrow ? (bent ? 5e-4 : 1e-5) + std::fabs(exact[c]) / 128 : (bent ? 2e-5 : 3e-6);
        ASSERT_NEAR(got, exact[c], tolerance) << "position " << position << " column " << c;
        if (got == rounded(static_cast<float>(exact[c]), DType::bfloat16)) ++equal;
      }
    }
    if (narrow) {
      EXPECT_GT(static_cast<double>(equal), (bent ? 0.95 : 0.99) * static_cast<double>(all));
    }
  }
};

TEST_P(Attention, EveryHeadShapeMatchesDoublePrecision) {
  for (const std::int64_t head_dim : {16, 24, 64, 80, 128}) {
    for (const auto& [q_heads, kv_heads] : {std::pair{2, 2}, {6, 2}, {7, 1}, {9, 1}}) {
      Setting s = setting();
      s.heads = {q_heads, kv_heads, head_dim};
      s.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
      compare(s, 45, {0, 1, 15, 16, 17, 31, 44});
    }
  }
}

TEST_P(Attention, SeveralBlocksMatchDoublePrecision) {
  Setting s = setting();
  s.heads = {4, 2, 24};
  compare(s, 790, {0, 254, 255, 256, 257, 511, 512, 600, 767, 768, 789});
}

TEST_P(Attention, SlidingWindowsMatchDoublePrecision) {
  for (const std::int64_t window : {1, 5, 16, 100, 256, 300}) {
    Setting s = setting();
    s.heads = {2, 1, 16};
    s.window = window;
    compare(s, 560, {0, 4, 5, 15, 16, 99, 100, 255, 256, 270, 355, 356, 511, 512, 559});
  }
}

TEST_P(Attention, SoftCapsAndBiasesByDistanceMatchDoublePrecision) {
  for (const float cap : {0.0F, 0.7F, 50.0F}) {
    for (const bool sloped : {false, true}) {
      Setting s = setting();
      s.heads = {6, 2, 24};
      s.soft_cap = cap;
      if (sloped) s.slopes = {0.5F, 0.03125F, 0.25F, 0.0078125F, 1.0F, 0.1F};
      compare(s, 530, {0, 1, 15, 16, 100, 255, 256, 257, 511, 512, 529});
      s.window = 40;
      compare(s, 300, {0, 38, 39, 40, 41, 255, 256, 290, 299});
    }
  }
}

TEST_P(Attention, LargeScoresDoNotOverflow) {
  Setting s = setting();
  s.heads = {1, 1, 16};
  s.scale = 30.0F;  // scores in the hundreds
  AttentionRun run(s, 1, 300);
  run.run_sequence(0, 300, 300);
  for (std::int64_t p = 0; p < 300; ++p) {
    for (std::int64_t c = 0; c < 16; ++c) ASSERT_LE(std::fabs(run.at(0, p, c)), 2.01F);
  }
}

TEST_P(Attention, NanInAKeyReachesExactlyTheRowsThatSeeIt) {
  Setting s = setting();
  s.heads = {1, 1, 16};
  s.window = 20;
  AttentionRun run(s, 1, 40);  // positions 0 to 9 are never stored: NaN
  run.step({{0, 10, 30}});
  for (std::int64_t p = 10; p < 40; ++p) EXPECT_EQ(std::isnan(run.at(0, p, 3)), p - 19 < 10) << p;
}

TEST(AttentionTypes, WrongActivationTypeIsAnInternalError) {
  const auto backend = make_cpu_backend(KernelSet::scalar, 1);
  const auto kv = backend->create_kv_store({1, 1, 16, 16, 1, DType::bfloat16});
  float q[16] = {};
  const Tensor tensor{q, DType::float32, 1, 16};
  EXPECT_THROW(backend->attention(tensor, {1, 1, 16}, {}, {}, *kv, 0, tensor), Error);
}

TEST(KvStores, RefuseImpossibleShapes) {
  const auto backend = make_cpu_backend(KernelSet::scalar, 1);
  EXPECT_THROW(backend->create_kv_store({1, 1, 16, 8, 1, DType::float32}), Error);
  EXPECT_THROW(backend->create_kv_store({1, 1, 16, 48, 1, DType::float32}), Error);
  EXPECT_THROW(backend->create_kv_store({1, 1, 16, 512, 1, DType::float32}), Error);
  EXPECT_THROW(backend->create_kv_store({1, 1, 16, 16, 1, DType::int8}), Error);
}

INSTANTIATE_TEST_SUITE_P(Sets, Attention,
                         testing::Combine(testing::ValuesIn(test::usable_sets()),
                                          testing::Values(DType::float32, DType::float16, DType::bfloat16)),
                         [](const auto& named) {
                           return test::test_name(std::get<0>(named.param)) + "_" +
                                  std::string(dtype_name(std::get<1>(named.param)));
                         });

}  // namespace
}  // namespace tpinfer
