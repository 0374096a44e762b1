// Tokens chosen where the logits are, against the runtime's sampler on the host: same tokens, same alternatives.
#include <cmath>
#include <functional>
#include <random>

#include "device_side.hpp"
#include "runtime/device_rows.hpp"

namespace tpinfer::test {
namespace {

constexpr std::int64_t kVocab = 1501;

class Choices : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    std::mt19937 engine(3);
    std::normal_distribution<float> normal(0.0F, 3.0F);
    logits_.resize(static_cast<std::size_t>(kRows * kVocab));
    for (float& logit : logits_) logit = std::round(normal(engine) * 8.0F) / 8.0F;  // with many ties
    known_.assign(kVocab, 1);
    for (const std::size_t id : {3, 700, 1500}) known_[id] = 0;
    for (int i = 0; i < 60; ++i) tokens_.push_back(static_cast<std::int32_t>(engine() % kVocab));
    tokens_.insert(tokens_.end(), {7, 8, 9, 7, 8});
  }

  SampleContext context(std::uint32_t draw) const {
    return {.eos_ids = eos_,
            .allowed_ids = known_,
            .tokens = tokens_,
            .prompt_tokens = 20,
            .bad_words = bad_words_,
            .draw = {.seed = 5, .prompt = 77, .sample = 1, .position = draw}};
  }

  /// The same rows on device and host.
  void compare(const std::vector<RowTask>& tasks) {
    auto& chooser = dynamic_cast<RowChooser&>(*gpu());
    const auto rows = static_cast<std::int64_t>(tasks.size());
    const Held device = gpu().tensor({logits_.begin(), logits_.begin() + rows * kVocab}, DType::float32, rows, kVocab);
    std::vector<RowOutcome> got(tasks.size());
    DeviceRows device_rows;
    ASSERT_TRUE(device_rows.prepare(tasks, kVocab));
    device_rows.start(chooser, device.tensor);
    device_rows.finish(chooser, got);
    SamplingScratch scratch;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      RowOutcome want;
      do_row(tasks[i], std::span(logits_).subspan(i * kVocab, kVocab), scratch, want);
      EXPECT_EQ(got[i].finite, want.finite) << i;
      EXPECT_EQ(got[i].token.id, want.token.id) << i;
      EXPECT_NEAR(got[i].token.logprob, want.token.logprob, 1e-5F) << i;
      ASSERT_EQ(got[i].top.size(), want.top.size());
      for (std::size_t k = 0; k < want.top.size(); ++k) {
        EXPECT_EQ(got[i].top[k].id, want.top[k].id) << i << ", " << k;
        EXPECT_NEAR(got[i].top[k].logprob, want.top[k].logprob, 1e-5F);
      }
    }
  }
  void compare_all(const std::function<void(SamplingParams&)>& set) {
    SamplingParams params;
    set(params);
    std::vector<RowTask> tasks;
    for (std::uint32_t r = 0; r < kRows; ++r)
      tasks.push_back({.params = &params, .context = context(r), .choose = true, .top_k = r % 3 == 0 ? 4 : 0});
    compare(tasks);
  }

  static constexpr std::int64_t kRows = 24;
  std::vector<float> logits_;
  std::vector<std::uint8_t> known_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> eos_{2, 11};
  std::vector<std::vector<std::int32_t>> bad_words_{{7, 8, 12}, {40}};
};

TEST_F(Choices, GreedyAndDrawnTokensAreTheHosts) {
  compare_all([](SamplingParams&) {});
  compare_all([](SamplingParams& p) { p.do_sample = true; });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.temperature = 0.0;
  });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.temperature = 0.7;
    p.top_k = 5;
  });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.temperature = 1e-38;
  });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.top_k = 1;
  });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.top_k = 100'000;
  });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.allow_unknown_ids = true;
  });
}

TEST_F(Choices, TopPAndMinPKeepWhatTheHostKeeps) {
  for (const double top_p : {0.0, 1e-6, 0.1, 0.3, 0.5, 0.77, 0.9, 0.999})
    compare_all([&](SamplingParams& p) {
      p.do_sample = true;
      p.temperature = 1.3;
      p.top_p = top_p;
    });
  for (const double min_p : {0.01, 0.3, 1.0})
    compare_all([&](SamplingParams& p) {
      p.do_sample = true;
      p.top_p = 0.95;
      p.min_p = min_p;
    });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.temperature = 3.0;
    p.top_k = 40;
    p.top_p = 0.8;
    p.min_p = 0.02;
  });
}

TEST_F(Choices, PenaltiesBiasAndBansChangeTheSameLogits) {
  compare_all([](SamplingParams& p) { p.repetition_penalty = 1.5; });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.repetition_penalty = 0.5;
    p.presence_penalty = 1.0;
    p.frequency_penalty = 2.0;
  });
  compare_all([](SamplingParams& p) { p.no_repeat_ngram_size = 3; });
  compare_all([](SamplingParams& p) {
    p.min_new_tokens = 1000;
    p.logit_bias = {{2, 100.0}, {5, 30.0}, {40, 200.0}, {12, 300.0}};
  });
  compare_all([](SamplingParams& p) {
    p.logit_bias = {{5, 1e39}, {6, -1e39}};
    p.allow_unknown_ids = true;
  });
}

TEST_F(Choices, EveryDrawFallsOnTheTokenOfItsShare) {
  // All logits alike but 10: the draws spread over those, and with top_p over the lower ids of them.
  std::fill(logits_.begin(), logits_.end(), -50.0F);
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t i = 0; i < 10; ++i) logits_[static_cast<std::size_t>(r * kVocab + 100 * i + 50)] = 2.0F;
  compare_all([](SamplingParams& p) { p.do_sample = true; });
  compare_all([](SamplingParams& p) {
    p.do_sample = true;
    p.top_p = 0.35;
  });
}

TEST_F(Choices, RowsThatAreScoredBrokenOrWantedForNothing) {
  SamplingParams params;
  params.do_sample = true;
  logits_[2 * kVocab + 5] = std::nanf("");
  logits_[3 * kVocab + 5] = INFINITY;
  for (std::int64_t i = 0; i < kVocab; ++i) logits_[static_cast<std::size_t>(4 * kVocab + i)] = -INFINITY;
  logits_[5 * kVocab + 5] = -INFINITY;
  for (std::int64_t i = 0; i < kVocab; ++i)
    if (i != 700) logits_[static_cast<std::size_t>(6 * kVocab + i)] = -INFINITY;  // only an id that no token has
  std::vector<RowTask> tasks;
  tasks.push_back({.params = &params, .context = {}, .given = 17, .top_k = 20});
  tasks.push_back({.params = &params, .context = {}});
  for (std::uint32_t r = 2; r < 7; ++r) tasks.push_back({.params = &params, .context = context(r), .choose = true});
  compare(tasks);
  DeviceRows device_rows;
  EXPECT_FALSE(device_rows.prepare(
      std::vector<RowTask>{{.params = &params, .context = {}, .choose = true, .top_k = 21}}, kVocab));
}

}  // namespace
}  // namespace tpinfer::test
