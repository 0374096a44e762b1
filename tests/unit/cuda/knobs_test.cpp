// Operations that only some families use, on a GPU against the CPU's.
#include "device_side.hpp"

namespace tpinfer::test {
namespace {

class Knobs : public OnDevice {};

TEST_F(Knobs, ScaledAdditionsWithAndWithoutANormBehindThem) {
  const std::int64_t cols = 300;
  for (const bool with_total : {false, true}) {
    for (const bool followed : {false, true}) {
      std::vector<float> results[2][2];
      for (const int which : {0, 1}) {
        const Side& side = which == 0 ? gpu() : cpu();
        const Held residual = side.tensor(random_values(3 * cols, 40), DType::float32, 3, cols);
        const Held out = side.room(DType::float32, 3, cols);
        const DeviceBuffer total = side.array(random_values(3 * cols, 41));
        const DeviceBuffer bias = side.array(random_values(cols, 42));
        side->add_residual(residual.tensor, with_total ? total.as<float>() : nullptr, bias.as<float>(), 0.25F);
        if (followed) side->norm(residual.tensor, {.weight = bias.as<float>()}, out.tensor);
        results[which][0] = side.floats(residual.tensor);
        if (followed) results[which][1] = side.floats(out.tensor);
      }
      EXPECT_EQ(results[0][0], results[1][0]);
      expect_close(results[0][1], results[1][1], 3e-6F, 1.0F);
    }
  }
}

TEST_F(Knobs, NormsInTheirPlace) {
  std::vector<float> results[2];
  for (const int which : {0, 1}) {
    const Side& side = which == 0 ? gpu() : cpu();
    const Held x = side.tensor(random_values(4 * 130, 43), DType::float32, 4, 130);
    const DeviceBuffer weight = side.array(random_values(130, 44));
    side->norm(x.tensor, {.kind = NormKind::layer, .weight = weight.as<float>()}, x.tensor);
    results[which] = side.floats(x.tensor);
  }
  expect_close(results[0], results[1], 3e-6F, 1.0F);
}

TEST_F(Knobs, Adjustments) {
  for (const AdjustParams params : {AdjustParams{.scale = 0.3F}, AdjustParams{.clip = 1.0F},
                                    AdjustParams{.soft_cap = 2.5F}, AdjustParams{2.0F, 6.0F, 3.0F}}) {
    std::vector<float> results[2];
    for (const int which : {0, 1}) {
      const Side& side = which == 0 ? gpu() : cpu();
      const Held x = side.tensor(random_values(3 * 301, 45, DType::float32, 5.0F), DType::float32, 3, 301);
      side->adjust(x.tensor, params);
      results[which] = side.floats(x.tensor);
    }
    expect_close(results[0], results[1], 2e-6F, 1.0F);
  }
}

TEST_F(Knobs, NormsOfHeads) {
  for (const AttentionHeads heads : {AttentionHeads{6, 3, 24}, {5, 1, 80}, {1, 1, 130}}) {
    for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
      for (const bool each : {false, true}) {
        std::vector<float> results[2];
        for (const int which : {0, 1}) {
          const Side& side = which == 0 ? gpu() : cpu();
          const Held qkv = side.tensor(random_values(3 * heads.qkv_cols(), 46), DType::float32, 3, heads.qkv_cols());
          const DeviceBuffer weights = side.array(random_values(heads.q_heads * heads.head_dim, 47));
          side->norm_heads(
              qkv.tensor, heads,
              {.kind = kind, .q_weight = weights.as<float>(), .k_weight = weights.as<float>(), .each_head = each});
          results[which] = side.floats(qkv.tensor);
        }
        expect_close(results[0], results[1], 4e-6F, 1.0F);
      }
    }
  }
}

TEST_F(Knobs, OneNormOverAllHeads) {
  const AttentionHeads heads{11, 2, 40};
  for (const DType sums : {DType::float64, DType::float32}) {
    for (const std::int64_t first_k : {0, 1}) {
      std::vector<float> squares[2];
      std::vector<float> results[2];
      for (const int which : {0, 1}) {
        const Side& side = which == 0 ? gpu() : cpu();
        const Held qkv = side.tensor(random_values(3 * heads.qkv_cols(), 48), DType::float32, 3, heads.qkv_cols());
        const DeviceBuffer weights = side.array(random_values(heads.q_heads * heads.head_dim, 49));
        const Held partials = side.room(sums, 3, 2);
        side->head_squares(qkv.tensor, heads, first_k, partials.tensor);
        squares[which] = side.floats(partials.tensor);
        const DeviceBuffer totals = side.array(squares[which]);
        side->norm_heads(qkv.tensor, heads,
                         {.q_weight = weights.as<float>(),
                          .k_weight = weights.as<float>(),
                          .squares = totals.as<float>(),
                          .q_cols = 11 * 40,
                          .k_cols = 2 * 40});
        results[which] = side.floats(qkv.tensor);
      }
      expect_close(squares[0], squares[1], 2e-6F, 100.0F);
      expect_close(results[0], results[1], 4e-6F, 1.0F);
    }
  }
}

TEST_F(Knobs, RotationOfAdjacentChannels) {
  const AttentionHeads heads{3, 1, 10};
  std::vector<float> results[2];
  for (const int which : {0, 1}) {
    const Side& side = which == 0 ? gpu() : cpu();
    const auto kv = side->create_kv_store(
        {.layers = 1, .kv_heads = 1, .head_dim = 10, .block_size = 16, .blocks = 1, .dtype = DType::float32});
    const Held qkv = side.tensor(random_values(2 * heads.qkv_cols(), 50), DType::float32, 2, heads.qkv_cols());
    const DeviceBuffer cos = side.array(random_values(8 * 3, 51));
    const DeviceBuffer sin = side.array(random_values(8 * 3, 52));
    const DeviceBuffer at = side.array(std::vector<std::int32_t>{3, 7});
    const Held q = side.room(DType::float32, 2, 30);
    side->rotate_and_store(qkv.tensor, heads, {cos.as<float>(), sin.as<float>(), 6, true},
                           {.rows = 2, .positions = at.as<std::int32_t>(), .slots = at.as<std::int32_t>()}, *kv, 0,
                           q.tensor);
    results[which] = side.floats(q.tensor);
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace tpinfer::test
