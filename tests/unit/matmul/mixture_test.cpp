// Backend::experts: five experts and a wider shared one, against float64, and the same bits in any batch.
#include <gtest/gtest.h>

#include "backend/cpu/experts.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/factory.hpp"
#include "core/error.hpp"
#include "matmul_support.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kExperts = 5;
constexpr std::int64_t kSlots = 3;  // two experts and the shared one

struct Shape {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t width = 0;
  std::int64_t shared_width = 0;
  bool gated = true;
};

// Channels that do not fill whole panels, and channels that do: up then begins with a panel, and is computed together
// with its part of gate. The last hidden size is more than a chunk of channels.
const Shape kShapes[] = {{"odd", 40, 20, 28, true},
                         {"mixed", 33, 32, 40, true},
                         {"whole", 40, 32, 96, true},
                         {"plain", 40, 20, 64, false},
                         {"long", 2200, 32, 64, true}};

struct Routed {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routed route_rows(std::int64_t rows, std::uint64_t first) {
  std::vector<float> logits = numbers(rows * (kExperts + 1), first, 1.5F);
  Routed routed{std::vector<std::int32_t>(static_cast<std::size_t>(rows * kSlots)),
                std::vector<float>(static_cast<std::size_t>(rows * kSlots))};
  TestThreads team(1);
  cpu_route(team, kernels_of(KernelSet::scalar).exponentials, {logits.data(), DType::float32, rows, kExperts + 1},
            {.experts = kExperts, .per_token = 2, .shared = true},
            {routed.experts.data(), routed.weights.data(), kSlots});
  return routed;
}

class Mixture {
 public:
  Mixture(const Shape& s, DType dtype, bool exact) : shape_(s), dtype_(dtype) {
    const std::int64_t parts = s.gated ? 2 : 1;
    const float scale = 2.0F / std::sqrt(static_cast<float>(s.hidden));
    for (std::uint64_t e = 0; e <= kExperts; ++e) {
      const std::int64_t width = e == kExperts ? s.shared_width : s.width;
      widths_.push_back(width);
      up_.emplace_back(numbers(parts * width * s.hidden, 1000000 * e, scale), parts * width, s.hidden, dtype);
      down_.emplace_back(numbers(s.hidden * width, 1000000 * e + 500000, 0.3F), s.hidden, width, dtype);
    }
    matrices_.reserve(2 * up_.size());
    for (std::size_t e = 0; e < up_.size(); ++e) {
      matrices_.push_back(pack(up_[e], dtype));
      matrices_.push_back(
          pack(down_[e], dtype, exact ? std::vector<std::int64_t>{8, widths_[e]} : std::vector<std::int64_t>{}));
      experts_.push_back({&matrices_[2 * e], &matrices_[2 * e + 1]});
    }
  }

  /// Sums of type Sum: double ones are exact.
  template <class Sum>
  std::vector<Sum> run(Backend& backend, Values& x, Routed routed) const {
    const std::int64_t entries = x.rows * kSlots;
    const std::int64_t width = shape_.shared_width;
    const std::int64_t up_width = width * (shape_.gated ? 2 : 1);
    const auto room = [&](std::int64_t cols) { return std::vector<float>(static_cast<std::size_t>(entries * cols)); };
    std::vector<float> inputs = room(shape_.hidden), ups = room(up_width), activated = room(width);
    std::vector<Sum> partials(static_cast<std::size_t>(x.rows * shape_.hidden), Sum{-77});
    const DType type = input_type(dtype_);
    backend.experts(experts_, x.tensor(), {routed.experts.data(), routed.weights.data(), kSlots}, Activation::silu,
                    shape_.gated,
                    {.inputs = {inputs.data(), type, entries, shape_.hidden},
                     .up = {ups.data(), DType::float32, entries, up_width},
                     .activated = {activated.data(), type, entries, width}},
                    {partials.data(), sizeof(Sum) == 8 ? DType::float64 : DType::float32, x.rows, shape_.hidden});
    return partials;
  }

  std::vector<double> expected(const Values& x, const Routed& routed, std::int64_t row) const {
    std::vector<double> sums(static_cast<std::size_t>(shape_.hidden), 0.0);
    const auto dot = [&](const Values& w, std::int64_t out) {
      double sum = 0;
      for (std::int64_t k = 0; k < w.cols; ++k)
        sum += static_cast<double>(w.at(out, k)) * static_cast<double>(x.at(row, k));
      return sum;
    };
    for (std::int64_t s = 0; s < kSlots; ++s) {
      const auto e = static_cast<std::size_t>(routed.experts[static_cast<std::size_t>(row * kSlots + s)]);
      const auto weight = static_cast<double>(routed.weights[static_cast<std::size_t>(row * kSlots + s)]);
      for (std::int64_t c = 0; c < widths_[e]; ++c) {
        const double gate = dot(up_[e], c);
        const double channel =
            gate / (1 + std::exp(-gate)) * (shape_.gated ? dot(up_[e], widths_[e] + c) : 1.0) * weight;
        for (std::size_t o = 0; o < sums.size(); ++o)
          sums[o] += channel * static_cast<double>(down_[e].at(static_cast<std::int64_t>(o), c));
      }
    }
    return sums;
  }

 private:
  Shape shape_;
  DType dtype_;
  std::vector<std::int64_t> widths_;
  std::vector<Values> up_, down_;
  std::vector<CpuMatrix> matrices_;
  std::vector<ExpertMatrices> experts_;
};

class MixtureOf : public testing::TestWithParam<Shape> {};

TEST_P(MixtureOf, IsTheWeightedSumInBothKindsOfSums) {
  const Shape& shape = GetParam();
  constexpr std::int64_t kRows = 23;
  const Routed routed = route_rows(kRows, 9);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Mixture exact(shape, dtype, true);
    const Mixture plain(shape, dtype, false);
    Values x(numbers(kRows * shape.hidden, 77, 0.5F), kRows, shape.hidden, input_type(dtype));
    std::vector<double> expected;
    for (std::int64_t row = 0; row < kRows; ++row)
      for (const double sum : exact.expected(x, routed, row)) expected.push_back(sum);
    double most = 0;
    for (const double sum : expected) most = std::max(most, std::abs(sum));
    const double tolerance = most * (dtype == DType::float32 ? 2e-6 : 1e-2);  // activations are rounded to bfloat16
    for (const KernelSet set : available_sets()) {
      const auto backend = make_cpu_backend(set, 2);
      const std::vector<double> totals = exact.run<double>(*backend, x, routed);
      const std::vector<float> sums = plain.run<float>(*backend, x, routed);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(totals[i], expected[i], tolerance) << "set " << static_cast<int>(set) << " place " << i;
        ASSERT_NEAR(static_cast<double>(sums[i]), expected[i], tolerance) << "set " << static_cast<int>(set);
        ASSERT_EQ(std::ldexp(totals[i], 28), std::nearbyint(std::ldexp(totals[i], 28))) << "off the grid";
      }
    }
  }
}

TEST_P(MixtureOf, HasTheSameBitsInAnyBatchOnAnyThreads) {
  const Shape& shape = GetParam();
  const std::int64_t rows = shape.hidden > 1000 ? 40 : 300;  // several blocks of rows for an expert
  const Routed routed = route_rows(rows, 5);
  for (const DType dtype : kWeightTypes) {
    const Mixture mixture(shape, dtype, true);
    Values x(numbers(rows * shape.hidden, 177, 0.5F), rows, shape.hidden, input_type(dtype));
    for (const KernelSet set : available_sets()) {
      if (set == KernelSet::scalar && shape.hidden > 1000) continue;  // slow, and without chunks
      const auto backend = make_cpu_backend(set, 1);
      const std::vector<double> all = mixture.run<double>(*backend, x, routed);
      for (const int threads : {2, 3}) {
        const auto team = make_cpu_backend(set, threads);
        EXPECT_TRUE(same_bits(mixture.run<double>(*team, x, routed), all)) << threads << " threads";
        for (const std::int64_t count : {1, 2, 7, 16})
          for (const std::int64_t first : {std::int64_t{0}, rows / 2, rows - count}) {
            Values some(numbers(rows * shape.hidden, 177, 0.5F), rows, shape.hidden, input_type(dtype));
            Values part = some;
            part.bytes.assign(
                some.bytes.begin() + first * shape.hidden * static_cast<std::int64_t>(dtype_size(x.dtype)),
                some.bytes.end());
            part.rows = count;
            const Routed mine{rows_of(routed.experts, first, count, kSlots),
                              rows_of(routed.weights, first, count, kSlots)};
            EXPECT_TRUE(same_bits(mixture.run<double>(*team, part, mine), rows_of(all, first, count, shape.hidden)))
                << "set " << static_cast<int>(set) << ", " << count << " rows from " << first;
          }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MixtureOf, testing::ValuesIn(kShapes),
                         [](const auto& param) { return param.param.name; });

TEST(Mixture, WrongShapesAreInternalErrors) {
  const Shape& shape = kShapes[0];
  const Mixture mixture(shape, DType::float32, true);
  const auto backend = make_cpu_backend(KernelSet::scalar, 1);
  Values wrong(numbers(3 * 39, 1, 1.0F), 3, 39, DType::float32);
  EXPECT_THROW(mixture.run<double>(*backend, wrong, route_rows(3, 1)), Error);
  Values none(std::vector<float>{}, 0, shape.hidden, DType::float32);
  EXPECT_TRUE(mixture.run<double>(*backend, none, route_rows(0, 1)).empty());
}

}  // namespace
}  // namespace tpinfer
