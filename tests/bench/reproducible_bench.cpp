// What exact sums (engine.reproducible: full) cost against plain ones (off): one process has the model in both forms
// and runs the same step in turn, by processor time, so that a busy machine does not hide a few percent.
//   bench_reproducible MODEL_DIR [MODEL_DIR ...]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <random>

#include "model_fixture.hpp"

namespace {

using namespace tpinfer;

constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kContext = 128;  // positions of a sequence before a decode step
constexpr std::int64_t kWidth = kContext / kBlock + 1;

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// `sequences` of `rows` tokens each from `position` on.
Step make_step(std::int64_t sequences, std::int64_t position, std::int64_t rows, std::int64_t vocab) {
  std::mt19937 random(1);
  Step step;
  step.clear();
  step.table_width = static_cast<std::int32_t>((position + rows + kBlock - 1) / kBlock);
  for (std::int64_t s = 0; s < sequences; ++s) {
    for (std::int64_t r = 0; r < rows; ++r) {
      step.tokens.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab)));
      step.positions.push_back(static_cast<std::int32_t>(position + r));
      step.slots.push_back(static_cast<std::int32_t>(s * step.table_width * kBlock + position + r));
    }
    for (std::int64_t b = 0; b < step.table_width; ++b)
      step.block_table.push_back(static_cast<std::int32_t>(s * step.table_width + b));
    step.row_begin.push_back(static_cast<std::int32_t>(step.rows()));
    step.logit_rows.push_back(static_cast<std::int32_t>(step.rows() - 1));
  }
  return step;
}

struct Case {
  const char* name;
  std::int64_t sequences, position, rows;
  int repeats;
};

void measure(const std::string& folder) {
  const auto comm = make_self_communicator();
  std::array<std::unique_ptr<testing::ModelFixture>, 2> models;  // off, full
  for (std::size_t m = 0; m < 2; ++m)
    models[m] = std::make_unique<testing::ModelFixture>(
        *comm, folder,
        testing::FixtureOptions{.dtype = DType::bfloat16,
                                .kernels = testing::available_kernel_sets().back(),
                                .partials = m == 0 ? DType::float32 : DType::float64,
                                .kv_blocks = 64 * kWidth,
                                .max_sequences = 64});
  for (const Case& c : {Case{"decode, 1 row", 1, kContext, 1, 15}, Case{"decode, 16 rows", 16, kContext, 1, 11},
                        Case{"decode, 64 rows", 64, kContext, 1, 9}, Case{"prefill, 512 rows", 1, 0, 512, 5}}) {
    const Step step = make_step(c.sequences, c.position, c.rows, models[0]->spec().vocab);
    std::array<std::vector<double>, 2> times;
    std::vector<double> ratios;
    for (int repeat = -1; repeat < c.repeats; ++repeat) {
      std::array<double, 2> now{};
      for (const std::size_t m :
           repeat % 2 == 0 ? std::array<std::size_t, 2>{0, 1} : std::array<std::size_t, 2>{1, 0}) {
        const double start = processor_seconds();
        models[m]->worker().transformer().forward(step, [](std::int64_t, std::int64_t, const float*) {});
        now[m] = processor_seconds() - start;
      }
      if (repeat < 0) continue;  // touches the memory
      for (std::size_t m = 0; m < 2; ++m) times[m].push_back(now[m]);
      ratios.push_back(now[1] / now[0]);
    }
    const auto median = [](std::vector<double>& v) {
      std::ranges::sort(v);
      return v[v.size() / 2];
    };
    const double off = median(times[0]);
    const double full = median(times[1]);
    const double ratio = median(ratios);
    fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.3f} | {:.3f} .. {:.3f} |\n",
               std::filesystem::path(folder).filename().string(), c.name, 1e3 * off, 1e3 * full, ratio, ratios.front(),
               ratios.back());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fmt::print("| model | step | off, ms | full, ms | full / off | range |\n|---|---|---|---|---|---|\n");
  for (int i = 1; i < argc; ++i) measure(argv[i]);
}
