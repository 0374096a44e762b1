#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "attention_run.hpp"
#include "kernel_sets.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kFirst = 9;  // position of row 0
constexpr std::int64_t kPositions = 70;

struct Tables {
  explicit Tables(std::int64_t rotary_dim) : dim(rotary_dim) {
    for (std::int64_t p = 0; p < kFirst + kPositions; ++p) {
      for (std::int64_t i = 0; i < dim / 2; ++i) {
        cos.push_back(static_cast<float>(std::cos(angle(p, i))));
        sin.push_back(static_cast<float>(std::sin(angle(p, i))));
      }
    }
  }
  double angle(std::int64_t position, std::int64_t i) const {
    return static_cast<double>(position) * std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
  }
  RopeTable table(bool adjacent = false) const { return {cos.data(), sin.data(), dim, adjacent}; }
  std::int64_t dim;
  std::vector<float> cos;
  std::vector<float> sin;
};

/// Channel c of a head at `position`: a pair (i, i + half) or (2 i, 2 i + 1) as a complex number, turned by the angle.
double turned(const Tables& tables, const float* head, std::int64_t position, std::int64_t c, bool adjacent = false) {
  const std::int64_t half = tables.dim / 2;
  if (c >= tables.dim) return head[c];
  const std::int64_t i = adjacent ? c / 2 : c % half;
  const bool real = adjacent ? c % 2 == 0 : c < half;
  const double angle = tables.angle(position, i);
  const double x = head[adjacent ? 2 * i : i];
  const double y = head[adjacent ? 2 * i + 1 : i + half];
  return real ? x * std::cos(angle) - y * std::sin(angle) : y * std::cos(angle) + x * std::sin(angle);
}

double tolerance(DType dtype, double value) {
  const double relative = dtype == DType::float32 ? 1e-6 : dtype == DType::float16 ? 5e-4 : 4e-3;
  return relative * (0.3 + std::fabs(value));
}

class Rotate : public testing::TestWithParam<std::tuple<DType, std::int64_t>> {};

TEST_P(Rotate, QueriesAndCacheHoldTheTurnedHeads) {
  const auto [dtype, rotary_dim] = GetParam();
  const Tables tables(rotary_dim);
  const AttentionHeads heads{6, 3, 24};
  for (const int threads : {1, 2}) {
    const auto backend = make_cpu_backend(KernelSet::scalar, threads);
    const auto kv = backend->create_kv_store({2, 3, 24, 32, 4, dtype});
    std::vector<float> qkv;
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> slots;
    for (std::int32_t p = 0; p < kPositions; ++p) {
      const auto row = test::qkv_row(1, p, heads.qkv_cols());
      qkv.insert(qkv.end(), row.begin(), row.end());
      positions.push_back(p + static_cast<std::int32_t>(kFirst));
      slots.push_back((3 - p / 32) * 32 + p % 32);
    }
    const StepBatch batch{.rows = kPositions, .positions = positions.data(), .slots = slots.data()};
    const DType q_type = backend->activation_dtype(dtype);
    std::vector<std::byte> q(static_cast<std::size_t>(kPositions * 6 * 24) * dtype_size(q_type));
    backend->rotate_and_store({qkv.data(), DType::float32, kPositions, heads.qkv_cols()}, heads,
                              rotary_dim > 0 ? tables.table() : RopeTable{}, batch, *kv, 1,
                              {q.data(), q_type, kPositions, 6 * 24});
    const auto& store = dynamic_cast<const CpuKvStore&>(*kv);
    for (std::int64_t p = 0; p < kPositions; ++p) {
      const float* row = qkv.data() + p * heads.qkv_cols();
      const std::int64_t slot = slots[static_cast<std::size_t>(p)];
      for (std::int64_t i = 0; i < 6 * 24; ++i) {
        const double exact = turned(tables, row + i / 24 * 24, p + kFirst, i % 24);
        ASSERT_NEAR(load_element(q.data(), q_type, static_cast<std::size_t>(p * 6 * 24 + i)), exact,
                    tolerance(q_type, exact));
      }
      for (std::int64_t i = 0; i < 3 * 24; ++i) {
        const std::byte* tile = store.layer(1) + store.layout().tile(slot / 32, i / 24, slot % 32);
        const double k = turned(tables, row + 6 * 24 + i / 24 * 24, p + kFirst, i % 24);
        const double v = row[9 * 24 + i];
        ASSERT_NEAR(load_element(tile + store.layout().key(i % 24, slot % 16), dtype, 0), k, tolerance(dtype, k));
        ASSERT_NEAR(load_element(tile + store.layout().value(i % 24, slot % 16), dtype, 0), v, tolerance(dtype, v));
      }
    }
  }
}

TEST(RotateAdjacent, PairsAreNeighbours) {
  const Tables tables(12);
  const AttentionHeads heads{2, 1, 20};
  const auto backend = make_cpu_backend(KernelSet::scalar, 1);
  const auto kv = backend->create_kv_store({1, 1, 20, 16, 1, DType::float32});
  auto qkv = test::qkv_row(1, 0, heads.qkv_cols());
  const std::int32_t position = 11;
  const std::int32_t slot = 3;
  std::vector<float> q(40);
  backend->rotate_and_store({qkv.data(), DType::float32, 1, heads.qkv_cols()}, heads, tables.table(true),
                            {.rows = 1, .positions = &position, .slots = &slot}, *kv, 0,
                            {q.data(), DType::float32, 1, 40});
  const auto& store = dynamic_cast<const CpuKvStore&>(*kv);
  for (std::int64_t i = 0; i < 40; ++i)
    ASSERT_NEAR(q[static_cast<std::size_t>(i)], turned(tables, qkv.data() + i / 20 * 20, position, i % 20, true), 1e-6);
  for (std::int64_t c = 0; c < 20; ++c)
    ASSERT_NEAR(
        load_element(store.layer(0) + store.layout().tile(0, 0, slot) + store.layout().key(c, slot), DType::float32, 0),
        turned(tables, qkv.data() + 40, position, c, true), 1e-6);
}

TEST(RotateScores, DependOnTheDistanceAlone) {
  // One head, the same q and k at every position: q_p . k_s must be a function of p - s.
  const Tables tables(16);
  std::vector<float> head(16);
  for (std::size_t i = 0; i < 16; ++i) head[i] = 0.1F * static_cast<float>(i) - 0.6F;
  const auto dot = [&](std::int64_t p, std::int64_t s) {
    const auto backend = make_cpu_backend(KernelSet::scalar, 1);
    const auto kv = backend->create_kv_store({1, 1, 16, 16, 1, DType::float32});
    std::vector<float> qkv;
    for (int part = 0; part < 6; ++part) qkv.insert(qkv.end(), head.begin(), head.end());
    const std::int32_t positions[] = {static_cast<std::int32_t>(p), static_cast<std::int32_t>(s)};
    const std::int32_t slots[] = {0, 1};
    std::vector<float> q(32);
    const StepBatch batch{.rows = 2, .positions = positions, .slots = slots};
    backend->rotate_and_store({qkv.data(), DType::float32, 2, 48}, {1, 1, 16}, tables.table(), batch, *kv, 0,
                              {q.data(), DType::float32, 2, 16});
    double sum = 0;
    for (std::size_t i = 0; i < 16; ++i) sum += static_cast<double>(q[i]) * static_cast<double>(q[16 + i]);
    return sum;
  };
  EXPECT_NEAR(dot(5, 2), dot(63, 60), 1e-6);
  EXPECT_NEAR(dot(40, 0), dot(69, 29), 1e-6);
  EXPECT_GT(std::fabs(dot(5, 2) - dot(5, 4)), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Types, Rotate,
                         testing::Combine(testing::Values(DType::float32, DType::float16, DType::bfloat16),
                                          testing::Values<std::int64_t>(0, 16, 24)),
                         [](const auto& named) {
                           return std::string(dtype_name(std::get<0>(named.param))) + "_rotary" +
                                  std::to_string(std::get<1>(named.param));
                         });

}  // namespace
}  // namespace tpinfer
