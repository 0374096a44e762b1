#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "../unit/matmul/matmul_support.hpp"

// What exact sums cost: the down projection with the leaves of its width ("exact") against the same product as one sum
// ("plain"), repeats interleaved. TPINFER_PROBE names a file with the line that a probe of this machine printed (keys
// read_gbs_1, bf16_gflops_1, fp32_gflops_1): then the figures come as shares of it too. Nothing here asserts a time.

namespace tpinfer {
namespace {

constexpr std::size_t kWorkingSet = std::size_t{512} << 20;  // more than the caches hold

struct Shape {
  std::int64_t cols;
  std::int64_t outs;
};
constexpr Shape kShapes[] = {{5632, 2048}, {14336, 2048}, {14336, 4096}};

const char* set_name(KernelSet set) {
  return set == KernelSet::scalar   ? "scalar"
         : set == KernelSet::avx2   ? "avx2"
         : set == KernelSet::avx512 ? "avx512"
                                    : "avx512-bf16";
}

std::vector<float> random_numbers(std::int64_t count, float scale) {
  std::minstd_rand random(3);
  std::uniform_real_distribution<float> distribution(-scale, scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = distribution(random);
  return values;
}

/// Enough copies of one matrix that a pass over them never finds its weights in a cache.
struct Weights {
  std::vector<CpuMatrix> copies;

  Weights(const Shape& shape, DType dtype, bool exact) {
    const Values stored(random_numbers(shape.outs * shape.cols, 0.05F), shape.outs, shape.cols, dtype);
    const std::size_t bytes = static_cast<std::size_t>(shape.outs * shape.cols) * dtype_size(dtype);
    for (std::size_t i = 0; i <= kWorkingSet / bytes; ++i)
      copies.push_back(pack(stored, dtype, exact ? channel_leaf_ends(shape.cols) : std::vector<std::int64_t>{}));
  }
};

const Weights& weights(const Shape& shape, DType dtype, bool exact) {
  static std::map<std::tuple<std::int64_t, std::int64_t, DType, bool>, std::unique_ptr<Weights>> made;
  auto& entry = made[{shape.cols, shape.outs, dtype, exact}];
  if (entry == nullptr) entry = std::make_unique<Weights>(shape, dtype, exact);
  return *entry;
}

void down_projection(benchmark::State& state, Shape shape, DType dtype, KernelSet set, std::int64_t rows, bool exact) {
  const Weights& w = weights(shape, dtype, exact);
  Values x(random_numbers(rows * shape.cols, 1.0F), rows, shape.cols, input_type(dtype));
  std::vector<float> y(static_cast<std::size_t>(rows * shape.outs));
  std::vector<double> partials(y.size());
  TestThreads team(1);
  std::size_t next = 0;
  for (auto _ : state) {
    const CpuMatrix& matrix = w.copies[next++ % w.copies.size()];
    if (exact)
      cpu_matmul_partial(set, team, matrix, x.tensor(), {.totals = partials.data()});
    else
      cpu_matmul(set, team, matrix, x.tensor(), nullptr, {y.data(), DType::float32, rows, shape.outs});
    benchmark::ClobberMemory();
  }
  const auto products = static_cast<double>(shape.cols * shape.outs);
  const auto calls = static_cast<double>(state.iterations());
  state.counters["GFLOPs"] =
      benchmark::Counter(2e-9 * products * static_cast<double>(rows) * calls, benchmark::Counter::kIsRate);
  state.counters["GBs"] =
      benchmark::Counter(1e-9 * products * static_cast<double>(dtype_size(dtype)) * calls, benchmark::Counter::kIsRate);
}

struct Probe {
  double read = 0;
  double bf16 = 0;
  double fp32 = 0;
};

Probe read_probe() {
  Probe probe;
  const char* path = std::getenv("TPINFER_PROBE");
  if (path == nullptr) return probe;
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  probe.read = json.at("read_gbs_1");
  probe.bf16 = json.at("bf16_gflops_1");
  probe.fp32 = json.at("fp32_gflops_1");
  return probe;
}

/// Keeps the medians and prints them side by side at the end.
class Ratios final : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.aggregate_name == "median") {
        std::string name = run.run_name.function_name;
        const bool exact = name.ends_with("/exact");
        name.erase(name.rfind('/'));
        Pair& pair = pairs_[name];
        (exact ? pair.exact : pair.plain) = run.GetAdjustedCPUTime();
        if (exact) {
          pair.gflops = run.counters.at("GFLOPs");
          pair.gbs = run.counters.at("GBs");
        }
      }
  }
  void Finalize() override {
    const Probe probe = read_probe();
    for (const auto& [name, pair] : pairs_) {
      std::cout << fmt::format("{:<40} exact / plain {:.3f}   {:7.1f} GFLOP/s {:6.2f} GB/s", name,
                               pair.exact / pair.plain, pair.gflops, pair.gbs);
      if (probe.read > 0)
        std::cout << fmt::format("   of probe: bf16 {:.2f} fp32 {:.2f} read {:.2f}", pair.gflops / probe.bf16,
                                 pair.gflops / probe.fp32, pair.gbs / probe.read);
      std::cout << "\n";
    }
  }

 private:
  struct Pair {
    double plain = 0;
    double exact = 0;
    double gflops = 0;
    double gbs = 0;
  };
  std::map<std::string, Pair> pairs_;
};

void register_all() {
  for (const Shape& shape : kShapes)
    for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32})
      for (const KernelSet set : available_sets())
        for (const std::int64_t rows : {1, 16, 128})
          for (const bool exact : {false, true}) {
            if (set == KernelSet::scalar) continue;
            if (set == KernelSet::avx512_bf16 && dtype != DType::bfloat16) continue;  // the same kernel as avx512
            const std::string name = fmt::format("{}x{}/{}/{}/{:03}/{}", shape.cols, shape.outs, dtype_name(dtype),
                                                 set_name(set), rows, exact ? "exact" : "plain");
            benchmark::RegisterBenchmark(name.c_str(), down_projection, shape, dtype, set, rows, exact);
          }
}

}  // namespace
}  // namespace tpinfer

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  std::string defaults[] = {"--benchmark_enable_random_interleaving=true", "--benchmark_repetitions=9",
                            "--benchmark_min_time=0.05", "--benchmark_report_aggregates_only=true"};
  for (std::string& option : defaults) arguments.insert(arguments.begin() + 1, option.data());  // the user's come last
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  tpinfer::register_all();
  tpinfer::Ratios ratios;
  benchmark::RunSpecifiedBenchmarks(&ratios);
  return 0;
}
