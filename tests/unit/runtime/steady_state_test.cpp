// Once prompts are computed, scheduling a decode step, making its message and sampling take no memory.
#include <gtest/gtest.h>

#include <random>

#include "counted_memory.hpp"
#include "runtime/row_work.hpp"
#include "runtime/scheduler.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kVocab = 3000;
constexpr std::int64_t kSequences = 6;
constexpr std::int64_t kNewTokens = 200;

struct Work {
  Scheduler scheduler{{.max_sequences = kSequences, .max_rows = 64, .block_size = 16, .blocks = 128}};
  Step step;
  std::vector<LogitRow> rows;
  std::vector<std::byte> message;
  std::vector<float> logits = std::vector<float>(kVocab);
  SamplingScratch scratch;
  RowOutcome outcome;
  std::mt19937 random{1};

  explicit Work(std::int64_t prompt) {
    for (std::int64_t s = 0; s < kSequences; ++s) {
      std::vector<std::int32_t> tokens;
      for (std::int64_t p = 0; p < prompt; ++p) tokens.push_back(static_cast<std::int32_t>(s * 100 + p));
      scheduler.add({.index = s,
                     .tokens = tokens,
                     .prompt_tokens = prompt,
                     .most_tokens = prompt + kNewTokens,
                     .next_logit = prompt - 1,
                     .blocks = {}});
    }
  }

  void run_step(const SamplingParams& params, std::int64_t prompt) {
    ASSERT_TRUE(scheduler.next(step, rows));
    encode(step, message);
    for (const LogitRow& row : rows) {
      for (float& v : logits) v = static_cast<float>(random() % 4096) / 512.0F;
      const auto& tokens = scheduler.tokens(row.sequence);
      RowTask task;
      task.params = &params;
      task.context.tokens = tokens;
      task.context.prompt_tokens = prompt;
      task.choose = true;
      task.top_k = params.logprobs.value_or(0);
      do_row(task, logits, scratch, outcome);
      scheduler.append(row.sequence, outcome.token.id);
    }
  }
};

TEST(SteadyState, SchedulingAndSamplingTakeNoMemory) {
  SamplingParams greedy;
  SamplingParams sampled;
  sampled.do_sample = true;
  sampled.temperature = 0.9;
  sampled.top_k = 50;
  sampled.top_p = 0.9;
  sampled.min_p = 0.01;
  SamplingParams scored;
  scored.logprobs = 5;
  for (const SamplingParams& params : {greedy, sampled, scored}) {
    Work work(30);
    for (int step = 0; step < 20; ++step) work.run_step(params, 30);
    const std::int64_t before = testing::allocations();
    for (int step = 0; step < 100; ++step) work.run_step(params, 30);
    EXPECT_EQ(testing::allocations() - before, 0);
  }
}

}  // namespace
}  // namespace tpinfer
