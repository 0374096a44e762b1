// Backend::experts with exact and with plain sums, in turn: bench_mixture [HIDDEN WIDTH EXPERTS PER_TOKEN [THREADS]].
// Prints the median time of a call, GFLOP/s, the rate at which the weights of the experts that are used are read, and
// the cost of exact sums. Weights of many layers, so that a call never finds its own in a cache.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>

#include "../unit/matmul/matmul_support.hpp"
#include "backend/factory.hpp"

namespace tpinfer {
namespace {

struct Shape {
  std::int64_t hidden = 1024;
  std::int64_t width = 3584;
  std::int64_t experts = 8;
  std::int64_t per_token = 2;
  int threads = 2;
};

constexpr std::size_t kWeightBytes = std::size_t{600} << 20;

std::vector<float> random_numbers(std::int64_t count, float scale) {
  std::minstd_rand random(3);
  std::uniform_real_distribution<float> distribution(-scale, scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = distribution(random);
  return values;
}

/// One layer's experts.
struct Layer {
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  std::vector<ExpertMatrices> experts;
};

class Bench {
 public:
  explicit Bench(const Shape& shape) : shape_(shape), backend_(make_cpu_backend(best_kernel_set(), shape.threads)) {
    const Values up(random_numbers(2 * shape.width * shape.hidden, 0.05F), 2 * shape.width, shape.hidden,
                    DType::bfloat16);
    const Values down(random_numbers(shape.width * shape.hidden, 0.05F), shape.hidden, shape.width, DType::bfloat16);
    const auto layers = 2 + kWeightBytes / static_cast<std::size_t>(6 * shape.width * shape.hidden * shape.experts);
    for (std::size_t i = 0; i < layers; ++i)
      for (const bool exact : {false, true}) layers_[exact].push_back(make_layer(up, down, exact));
  }

  void run(std::int64_t rows) {
    std::vector<double> times[2];
    for (int repeat = 0; repeat < 11; ++repeat)
      for (const bool exact : {false, true}) times[exact].push_back(seconds(rows, exact));
    double median[2];
    std::vector<double> ratios;
    for (std::size_t i = 1; i < times[0].size(); ++i) ratios.push_back(times[1][i] / times[0][i]);
    for (const bool exact : {false, true}) {
      std::ranges::sort(times[exact]);
      median[exact] = times[exact][times[exact].size() / 2];
    }
    std::ranges::sort(ratios);
    const auto weights = static_cast<double>(3 * shape_.width * shape_.hidden);
    const auto used = static_cast<double>(std::min(rows * shape_.per_token, shape_.experts));  // at the most
    fmt::print("{:4} rows: plain {:8.3f} ms  exact {:8.3f} ms  {:7.1f} GFLOP/s {:6.1f} GB/s   exact / plain {:.3f}\n",
               rows, 1e3 * median[0], 1e3 * median[1],
               2e-9 * weights * static_cast<double>(rows * shape_.per_token) / median[1],
               2e-9 * weights * used / median[1], ratios[ratios.size() / 2]);
  }

 private:
  Layer make_layer(const Values& up, const Values& down, bool exact) {
    Layer layer;
    for (std::int64_t e = 0; e < shape_.experts; ++e) {
      auto gate_up = backend_->create_matrix({.rows = up.rows, .cols = up.cols, .dtype = DType::bfloat16});
      MatrixSpec spec{.rows = down.rows, .cols = down.cols, .dtype = DType::bfloat16};
      if (exact) spec.leaf_ends = channel_leaf_ends(down.cols);
      auto out = backend_->create_matrix(spec);
      backend_->load_matrix(*gate_up, 0, 0, up.stored());
      backend_->load_matrix(*out, 0, 0, down.stored());
      layer.experts.push_back({gate_up.get(), out.get()});
      layer.matrices.push_back(std::move(gate_up));
      layer.matrices.push_back(std::move(out));
    }
    return layer;
  }

  double seconds(std::int64_t rows, bool exact) {
    const std::int64_t entries = rows * shape_.per_token;
    Values x(random_numbers(rows * shape_.hidden, 1.0F), rows, shape_.hidden, DType::bfloat16);
    std::vector<std::int32_t> chosen;
    std::minstd_rand random(7);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<std::int32_t> all;
      for (std::int32_t e = 0; e < shape_.experts; ++e) all.push_back(e);
      std::ranges::shuffle(all, random);
      chosen.insert(chosen.end(), all.begin(), all.begin() + shape_.per_token);
    }
    std::vector<float> weights(chosen.size(), 0.4F);
    std::vector<float> up(static_cast<std::size_t>(entries * 2 * shape_.width));
    Values activated({}, 0, shape_.width, DType::bfloat16);
    activated.bytes.resize(static_cast<std::size_t>(entries * shape_.width * 2));
    std::vector<double> partials(static_cast<std::size_t>(rows * shape_.hidden));
    const ExpertScratch scratch{.inputs = {},
                                .up = {up.data(), DType::float32, entries, 2 * shape_.width},
                                .activated = {activated.bytes.data(), DType::bfloat16, entries, shape_.width}};
    const std::vector<Layer>& layers = layers_[exact];
    const auto start = std::chrono::steady_clock::now();
    for (const Layer& layer : layers)
      backend_->experts(layer.experts, x.tensor(), {chosen.data(), weights.data(), shape_.per_token}, Activation::silu,
                        true, scratch, {partials.data(), exact ? DType::float64 : DType::float32, rows, shape_.hidden});
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return elapsed.count() / static_cast<double>(layers.size());
  }

  Shape shape_;
  std::unique_ptr<CpuBackend> backend_;
  std::vector<Layer> layers_[2];  ///< plain, exact
};

}  // namespace
}  // namespace tpinfer

int main(int argc, char** argv) {
  tpinfer::Shape shape;
  std::int64_t* const sizes[] = {&shape.hidden, &shape.width, &shape.experts, &shape.per_token};
  for (int i = 1; i < argc && i <= 4; ++i) *sizes[i - 1] = std::atoll(argv[i]);
  if (argc > 5) shape.threads = std::atoi(argv[5]);
  tpinfer::Bench bench(shape);
  for (const std::int64_t rows : {1, 4, 16, 64, 128, 512}) bench.run(rows);
  return 0;
}
