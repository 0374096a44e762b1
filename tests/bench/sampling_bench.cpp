// Microseconds of processor time of one row's sampling, for large vocabularies.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <random>

#include "runtime/row_work.hpp"

namespace {

using namespace tpinfer;

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Way {
  const char* name;
  SamplingParams params;
};

std::vector<Way> ways() {
  SamplingParams greedy;
  greedy.temperature = 0;
  SamplingParams drawn;
  drawn.do_sample = true;
  drawn.temperature = 0.9;
  std::vector<Way> list{{"greedy", greedy},    {"temperature", drawn},          {"top_k 50", drawn},
                        {"top_p 0.95", drawn}, {"top_k 50, top_p 0.95", drawn}, {"greedy, 5 logprobs", greedy}};
  list[2].params.top_k = list[4].params.top_k = 50;
  list[3].params.top_p = list[4].params.top_p = 0.95;
  list[5].params.logprobs = 5;
  return list;
}

}  // namespace

int main() {
  fmt::print("| vocabulary | logits | sampling | us a row |\n|---|---|---|---|\n");
  std::mt19937 random(1);
  for (const std::size_t vocab : {32000U, 152000U})
    for (const float spread : {1.0F, 4.0F}) {  // flat as of random weights, peaked as of trained ones
      std::vector<std::vector<float>> rows(8, std::vector<float>(vocab));
      for (auto& row : rows)
        for (float& v : row) v = std::normal_distribution<float>(0, spread)(random);
      for (const Way& way : ways()) {
        SamplingScratch scratch;
        RowOutcome outcome;
        std::vector<double> times;
        for (int repeat = 0; repeat < 5; ++repeat) {
          const double start = processor_seconds();
          for (const auto& row : rows) {
            RowTask task{
                .params = &way.params, .context = {}, .choose = true, .top_k = way.params.logprobs.value_or(0)};
            task.context.draw.position = static_cast<std::uint32_t>(repeat);
            do_row(task, row, scratch, outcome);
          }
          times.push_back((processor_seconds() - start) / static_cast<double>(rows.size()));
        }
        fmt::print("| {} | {} | {} | {:.0f} |\n", vocab, spread == 1.0F ? "flat" : "peaked", way.name,
                   1e6 * *std::ranges::min_element(times));
      }
    }
}
