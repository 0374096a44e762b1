#include <algorithm>

#include "output/result_reader.hpp"
#include "output/result_writer.hpp"
#include "sample_result.hpp"
#include "scratch.hpp"

namespace tpinfer::test {
namespace {

/// What the file keeps of sample_result(): answers in order, U+2400 for NUL.
RunResult stored_sample() {
  auto r = sample_result();
  std::ranges::reverse(r.answers);
  r.answers[0].text = "a\u2400b😀";
  r.answers[0].text_lossy = true;
  r.prompts[3].text = "a\u2400b";
  return r;
}

class ResultFile : public Scratch {
 protected:
  RunResult through_file(const RunResult& result) const {
    write_result_file(folder_ / "a.h5", result);
    return read_result_file(folder_ / "a.h5");
  }
};

TEST_F(ResultFile, ComesBackInOrderOfPromptAndSample) {
  EXPECT_EQ(to_text(through_file(sample_result())), to_text(stored_sample()));
}

TEST_F(ResultFile, MayBeEmpty) {
  // The five memory phases of no rank, the classes of none: nothing is lost.
  EXPECT_EQ(to_text(through_file(RunResult{})), to_text(RunResult{}));
}

TEST_F(ResultFile, IsTheSameForTheSameResult) {
  write_result_file(folder_ / "a.h5", sample_result());
  write_result_file(folder_ / "b.h5", sample_result());
  EXPECT_EQ(slurp(folder_ / "a.h5"), slurp(folder_ / "b.h5"));
}

TEST_F(ResultFile, KeepsTextsThatHdf5CannotHold) {
  RunResult r;
  r.command = "tpinfer \xFF.yaml";
  r.prompts.resize(2);
  r.answers.resize(2);
  r.answers[0].text = "\0"s;
  r.answers[1].prompt_index = 1;
  r.answers[1].text = "half \xF0\x9F\x98";
  const auto back = through_file(r);
  EXPECT_EQ(back.command, "tpinfer \uFFFD.yaml");
  EXPECT_EQ(back.answers[0].text, "\u2400");
  EXPECT_TRUE(back.answers[0].text_lossy);
  EXPECT_EQ(back.answers[1].text, "half \uFFFD\uFFFD\uFFFD");
  EXPECT_TRUE(back.answers[1].text_lossy);
}

TEST_F(ResultFile, ThinsStepsToTenThousand) {
  RunResult r;
  for (std::int32_t i = 0; i < 25'001; ++i) r.steps.push_back({1.0 * i, 1, i, 0, 0, 0, 0});
  const auto back = through_file(r);
  EXPECT_LE(back.steps.size(), 10'000U);
  EXPECT_GE(back.steps.size(), 8'000U);
  EXPECT_EQ(back.steps.back().tokens, 25'000);
}

TEST_F(ResultFile, HoldsLongColumns) {
  RunResult r;
  r.prompts.resize(3);
  r.answers.resize(3);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    auto& answer = r.answers[i];
    answer.prompt_index = static_cast<std::int64_t>(i);
    answer.top_k = i == 1 ? 5 : 3;
    for (std::size_t t = 0; t < 150'000 * i; ++t) {
      state = state * 1664525U + 1013904223U;
      answer.token_ids.push_back(static_cast<std::int32_t>(state >> 17));
      answer.logprobs.push_back(-static_cast<float>(state >> 8) * 1e-6F);
      for (std::int32_t k = 0; k < answer.top_k; ++k) {
        answer.top_ids.push_back(static_cast<std::int32_t>(state >> 18) + k);
        answer.top_logprobs.push_back(-static_cast<float>(k));
      }
    }
  }
  r.answers[0].top_k = 0;  // no token, so none asked can be told from none had
  EXPECT_EQ(to_text(through_file(r)), to_text(r));
}

TEST_F(ResultFile, RefusesRowsThatContradictEachOther) {
  const auto refuses = [&](auto spoil, const char* part) {
    auto r = sample_result();
    spoil(r);
    EXPECT_HAS(complaint(ExitCode::internal, [&] { write_result_file(folder_ / "x.h5", r); }), part);
  };
  refuses([](RunResult& r) { r.answers[0].prompt_index = 5; }, "there are 5 prompts");
  refuses([](RunResult& r) { r.answers[1].sample_index = 0; }, "answer 0 of prompt 0 is there twice");
  refuses([](RunResult& r) { r.answers[0].logprobs.pop_back(); }, "has 1 log probabilities for 2 tokens");
  refuses([](RunResult& r) { r.answers[0].top_k = 3; }, "answer 0 of prompt 1 has 2 top ids");
  refuses([](RunResult& r) { r.prompts[0].prompt_top_ids.pop_back(); }, "prompt 'q1' has 5 top ids");
  refuses([](RunResult& r) { r.ranks[2].weights.read_by_class.push_back(1); }, "rank 2 has 3 weight classes");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace tpinfer::test
