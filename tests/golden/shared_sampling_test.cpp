// Sampling divided over the ranks gives the answers that rank 0 alone gives, bit by bit.
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "model_fixture.hpp"
#include "mpi_test.hpp"
#include "runtime/engine.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kNever = std::int64_t{1} << 60;

using testing::ModelFixture;
using testing::world;

std::vector<Request> requests(std::int64_t vocab) {
  SamplingParams greedy;
  greedy.do_sample = false;
  greedy.logprobs = 3;
  SamplingParams drawn;
  drawn.do_sample = true;
  drawn.temperature = 0.8;
  drawn.top_p = 0.9;
  drawn.n = 2;
  SamplingParams shaped = drawn;
  shaped.top_k = 30;
  shaped.min_p = 0.01;
  shaped.repetition_penalty = 1.2;
  shaped.frequency_penalty = 0.3;
  shaped.presence_penalty = -0.1;
  shaped.no_repeat_ngram_size = 2;
  shaped.logit_bias = {{5, 2.0}, {9, -100.0}};
  shaped.prompt_logprobs = 2;
  std::vector<Request> list;
  for (int i = 0; i < 9; ++i) {
    Request request{.prompt_index = i, .id_hash = static_cast<std::uint64_t>(i), .token_ids = {}};
    SamplingParams mine = i % 3 == 0 ? greedy : i % 3 == 1 ? drawn : shaped;
    mine.ignore_eos = true;
    request.params = std::make_shared<const SamplingParams>(mine);
    request.most_new_tokens = 5 + 3 * (i % 4);
    for (int t = 0; t < 4 + 5 * i; ++t)
      request.token_ids.push_back(static_cast<std::int32_t>((t * 31 + i * 7) % vocab));
    list.push_back(request);
  }
  return list;
}

struct Outcome {
  std::map<std::pair<std::int64_t, int>, AnswerRow> answers;
  std::map<std::int64_t, PromptRow> scores;
  std::uint64_t collectives = 0;
};

Outcome run(ModelFixture& model, std::int64_t share_from) {
  Outcome out;
  const std::uint64_t before = model.worker().communication().collectives;
  const RunSetup& setup = model.setup();
  std::vector<std::uint8_t> known(static_cast<std::size_t>(setup.spec.vocab), 1);
  known[7] = 0;
  EngineTimes times;
  if (world().rank() > 0) {
    follow(world(), model.worker().transformer(), model.worker().parallel(), known, times, [] {});
  } else {
    const AnsweringContext context{.eos_ids = {2}, .allowed_ids = known};
    Engine engine(world(), model.worker().transformer(), model.worker().parallel(),
                  {.max_sequences = 4, .max_rows = 64, .block_size = 16, .blocks = setup.kv_blocks}, context,
                  setup.spec.vocab, std::chrono::steady_clock::now());
    engine.share_from(share_from);
    RequestList source(requests(setup.spec.vocab));
    engine.run(source,
               {.answer =
                    [&](AnswerRow row) {
                      out.answers[{row.prompt_index, row.sample_index}] = std::move(row);
                    },
                .failed = [](std::int64_t prompt, const std::string& e) { ADD_FAILURE() << prompt << ": " << e; },
                .scored = [&](std::int64_t prompt, PromptRow& row) { out.scores[prompt] = std::move(row); },
                .step = [](const StepRow&) {}});
  }
  out.collectives = model.worker().communication().collectives - before;
  return out;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, {}, [](float v) { return std::bit_cast<std::uint32_t>(v); },
      [](float v) { return std::bit_cast<std::uint32_t>(v); });
}

void expect_the_same(const char* name, Transport transport, int threads) {
  SCOPED_TRACE(std::string(name) + (transport == Transport::shm ? ", shm" : ", mpi"));
  ModelFixture model(world(), std::string(TPINFER_TEST_DATA "/models/") + name,
                     {.threads = threads, .transport = transport, .kv_blocks = 48});
  const Outcome alone = run(model, kNever);
  const Outcome shared = run(model, 1);
  EXPECT_GT(shared.collectives, alone.collectives) << "the rows were not shared";
  if (world().rank() > 0) return;
  ASSERT_EQ(alone.answers.size(), 15u);
  ASSERT_EQ(shared.answers.size(), alone.answers.size());
  for (const auto& [key, a] : alone.answers) {
    const AnswerRow& b = shared.answers.at(key);
    EXPECT_EQ(a.token_ids, b.token_ids) << key.first;
    EXPECT_TRUE(same(a.logprobs, b.logprobs)) << key.first;
    EXPECT_EQ(a.top_ids, b.top_ids) << key.first;
    EXPECT_TRUE(same(a.top_logprobs, b.top_logprobs)) << key.first;
  }
  ASSERT_EQ(alone.scores.size(), 3u);
  for (const auto& [prompt, a] : alone.scores) {
    const PromptRow& b = shared.scores.at(prompt);
    EXPECT_TRUE(same(a.prompt_logprobs, b.prompt_logprobs)) << prompt;
    EXPECT_EQ(a.prompt_top_ids, b.prompt_top_ids) << prompt;
  }
}

TEST(SharedSampling, GivesTheAnswersOfRankZeroAlone) {
  expect_the_same("tiny-llama", Transport::shm, 1);
  expect_the_same("tiny-llama", Transport::mpi, 1);
  expect_the_same("rand-qwen2-moe-wide", Transport::shm, 2);
}

}  // namespace
}  // namespace tpinfer
