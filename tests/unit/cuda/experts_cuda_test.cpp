// Routing and mixtures of experts on a GPU against the CPU's, and their bits over batches.
#include <algorithm>
#include <cmath>

#include "device_side.hpp"

namespace tpinfer::test {
namespace {

constexpr DType kTypes[] = {DType::float32, DType::float16, DType::bfloat16};

/// Experts of unequal width, the last one shared; some have no channels on this rank.
struct Mixture {
  std::int64_t hidden = 40;
  std::vector<std::int64_t> channels = {24, 24, 24, 24, 24, 24, 56};
  std::vector<std::int64_t> leaf_ends = {8, 24};  ///< of the routed ones
  std::int64_t per_token = 2;
  std::int64_t slots() const { return per_token + 1; }
  std::int64_t widest() const { return *std::ranges::max_element(channels); }
};

class Experts : public OnDevice {
 protected:
  struct Loaded {
    std::vector<std::unique_ptr<PackedMatrix>> matrices;
    std::vector<ExpertMatrices> list;
  };
  static Loaded load(const Side& side, const Mixture& m, DType dtype) {
    Loaded loaded;
    for (std::size_t e = 0; e < m.channels.size(); ++e) {
      const std::int64_t width = m.channels[e];
      const auto seed = static_cast<unsigned>(100 + e);
      const bool routed = e + 1 < m.channels.size();
      MatrixSpec down{.rows = m.hidden, .cols = width, .dtype = dtype};
      if (routed && !m.leaf_ends.empty()) down.leaf_ends = m.leaf_ends;
      loaded.matrices.push_back(side.matrix(random_values(2 * width * m.hidden, seed, dtype, 0.3F),
                                            {.rows = 2 * width, .cols = m.hidden, .dtype = dtype}));
      loaded.matrices.push_back(side.matrix(random_values(m.hidden * width, seed + 50, dtype, 0.3F), down));
      loaded.list.push_back({loaded.matrices[2 * e].get(), loaded.matrices[2 * e + 1].get()});
    }
    return loaded;
  }
  static std::vector<double> run(const Side& side, const Mixture& m, const Loaded& loaded, DType dtype,
                                 const std::vector<float>& x, const std::vector<std::int32_t>& chosen,
                                 const std::vector<float>& weights, DType sums) {
    const auto rows = static_cast<std::int64_t>(chosen.size()) / m.slots();
    const DType type = side.activation(dtype);
    const DeviceBuffer experts = side.array(chosen);
    const DeviceBuffer scales = side.array(weights);
    const Held inputs = side.room(type, rows * m.slots(), m.hidden);
    const Held up = side.room(DType::float32, rows * m.slots(), 2 * m.widest());
    const Held activated = side.room(type, rows * m.slots(), m.widest());
    const Held partials = side.room(sums, rows, m.hidden);
    const Held input = side.tensor(std::vector<float>(x.begin(), x.begin() + rows * m.hidden), type, rows, m.hidden);
    side->experts(loaded.list, input.tensor,
                  {.experts = experts.as<std::int32_t>(), .weights = scales.as<float>(), .slots = m.slots()},
                  Activation::silu, true, {inputs.tensor, up.tensor, activated.tensor}, partials.tensor);
    if (sums == DType::float64) return side.download<double>(partials.tensor.data, rows * m.hidden);
    const std::vector<float> narrow = side.floats(partials.tensor);
    return {narrow.begin(), narrow.end()};
  }
  /// Choices of `rows` rows: two experts each, the first far more often than the others, and the shared one.
  static void choose(const Mixture& m, std::int64_t rows, std::vector<std::int32_t>& chosen,
                     std::vector<float>& weights) {
    const auto routed = static_cast<std::int32_t>(m.channels.size()) - 1;
    weights = random_values(rows * m.slots(), 77);
    for (std::int32_t r = 0; r < rows; ++r) {
      const std::int32_t first = r % 3 == 0 ? r / 3 % routed : 0;
      chosen.insert(chosen.end(), {first, (first + 1 + r % (routed - 1)) % routed, routed});
    }
  }
};

TEST_F(Experts, AgreeWithTheCpuAndNoRowSeesAnother) {
  Mixture odd{.hidden = 21, .channels = {5, 0, 7, 5, 11}, .leaf_ends = {}};
  for (const Mixture& m : {Mixture{}, odd}) {
    for (const DType dtype : kTypes) {
      for (const DType sums : {DType::float64, DType::float32}) {
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << " hidden " << m.hidden << " " << dtype_name(sums));
        const std::int64_t rows = dtype == DType::bfloat16 && m.hidden == 40 ? 300 : 50;
        std::vector<std::int32_t> chosen;
        std::vector<float> weights;
        choose(m, rows, chosen, weights);
        const std::vector<float> x = random_values(rows * m.hidden, 76, dtype);
        const Loaded loaded = load(gpu(), m, dtype);
        const std::vector<double> all = run(gpu(), m, loaded, dtype, x, chosen, weights, sums);
        const std::vector<double> want =
            run(cpu(), m, load(cpu(), m, dtype), dtype, x, chosen, weights, DType::float64);
        const double tolerance = dtype == DType::float32 ? 1e-5 : dtype == DType::float16 ? 5e-3 : 4e-2;
        for (std::size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(all[i], want[i], tolerance) << i;
        for (const std::int64_t few : {1, 10}) {
          const auto choices = few * m.slots();
          const std::vector<double> some = run(gpu(), m, loaded, dtype, x, {chosen.begin(), chosen.begin() + choices},
                                               {weights.begin(), weights.begin() + choices}, sums);
          EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << few << " rows";
        }
      }
    }
  }
}

TEST_F(Experts, AreChosenAsOnTheCpuAndTiesGoToTheLowerNumber) {
  for (const bool shared : {false, true}) {
    for (const bool renormalise : {false, true}) {
      const RoutingParams params{.experts = 70, .per_token = 4, .renormalise = renormalise, .shared = shared};
      const std::int64_t cols = 70 + (shared ? 1 : 0);
      const std::int64_t slots = 4 + (shared ? 1 : 0);
      std::vector<float> logits = random_values(9 * cols, 80, DType::float32, 3.0F);
      for (const std::int64_t e : {5, 33, 37, 64, 65}) logits[static_cast<std::size_t>(2 * cols + e)] = 4.0F;
      std::vector<std::int32_t> chosen[2];
      std::vector<float> weights[2];
      for (const int which : {0, 1}) {
        const Side& side = which == 0 ? gpu() : cpu();
        const Held input = side.tensor(logits, DType::float32, 9, cols);
        const Held experts = side.room(DType::int32, 9, slots);
        const Held scales = side.room(DType::float32, 9, slots);
        side->route(input.tensor, params,
                    {.experts = static_cast<std::int32_t*>(experts.tensor.data),
                     .weights = scales.tensor.floats(),
                     .slots = slots});
        chosen[which] = side.download<std::int32_t>(experts.tensor.data, 9 * slots);
        weights[which] = side.floats(scales.tensor);
      }
      EXPECT_EQ(chosen[0], chosen[1]);
      EXPECT_EQ(chosen[0][static_cast<std::size_t>(2 * slots)], 5);
      EXPECT_EQ(chosen[0][static_cast<std::size_t>(2 * slots + 3)], 64);
      expect_close(weights[0], weights[1], 1e-5F, 0.01F);
    }
  }
}

}  // namespace
}  // namespace tpinfer::test
