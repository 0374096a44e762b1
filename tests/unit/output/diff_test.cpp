#include <algorithm>
#include <functional>

#include "app/cmd_diff.hpp"
#include "core/json.hpp"
#include "output/job_differences.hpp"
#include "output/result_writer.hpp"
#include "sample_result.hpp"
#include "scratch.hpp"

namespace tpinfer::test {
namespace {

// As a file has it: answers in order of prompt and sample.
RunResult sorted_sample() {
  RunResult r = sample_result();
  std::ranges::sort(r.answers, {}, [](const AnswerRow& row) { return std::pair(row.prompt_index, row.sample_index); });
  return r;
}

ResultDiff diff_of(const RunResult& a, const RunResult& b, const DiffOptions& options = {}) {
  return diff_results(a, "a.h5", b, "b.h5", options);
}

std::size_t count(const ResultDiff& diff, DiffKind kind) { return diff.counts[static_cast<std::size_t>(kind)]; }
std::size_t total(const ResultDiff& diff) {
  std::size_t sum = 0;
  for (const std::size_t n : diff.counts) sum += n;
  return sum;
}

TEST(ResultDiff, AResultIsTheSameAsItself) {
  const RunResult r = sorted_sample();
  const ResultDiff diff = diff_of(r, r);
  EXPECT_TRUE(diff.same());
  EXPECT_EQ(diff.prompts, 5U);
  EXPECT_EQ(diff.answers, 3U);
  EXPECT_EQ(diff.tokens, 6U);
  EXPECT_TRUE(diff.first.empty());
  EXPECT_EQ(diff.largest_logprob_difference, 0);
}

TEST(ResultDiff, TimesRanksAndAttemptsDoNotCount) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  b.run_id = "run-2";
  b.created = b.finished = b.hostname = b.command = "other";
  b.world_size = 1;
  b.ranks.resize(1);
  b.steps.clear();
  b.events.clear();
  b.attempts.clear();
  b.plan_digest = "ff";
  for (AnswerRow& answer : b.answers) answer.t_queued = answer.t_first_token = answer.t_finished = answer.attempt = 9;
  for (PromptRow& prompt : b.prompts) prompt.meta = "{}";
  EXPECT_TRUE(diff_of(a, b).same());
}

// Each change is found, as this kind, at this place, and as nothing else.
TEST(ResultDiff, EveryKindIsFoundWhereItIs) {
  struct Case {
    DiffKind kind;
    std::function<void(RunResult&)> change;
    std::string id;
    std::int32_t sample;
    std::int64_t position;
    std::string a, b;
  };
  const std::vector<Case> cases = {
      {DiffKind::status, [](auto& r) { r.prompts[4].status = PromptStatus::skipped; }, "later", -1, -1, "pending",
       "skipped"},
      {DiffKind::error, [](auto& r) { r.prompts[2].error[7] = 'X'; }, "bad:3", -1, 7,
       "'bad:3' has 9000 tokens, the model takes 4096", "Xbad:3' has 9000 tokens, the model takes 4096"},
      {DiffKind::prompt, [](auto& r) { r.prompts[0].token_ids[1] = 16; }, "q1", -1, 1, "15", "16"},
      {DiffKind::prompt, [](auto& r) { r.prompts[0].text += "!"; }, "q1", -1, 12, "(end)", "!"},
      {DiffKind::prompt_logprobs, [](auto& r) { r.prompts[0].prompt_logprobs[2] = -0.5F; }, "q1", -1, 2, "-0.25",
       "-0.5"},
      {DiffKind::prompt_logprobs, [](auto& r) { r.prompts[0].prompt_logprobs.clear(); }, "q1", -1, 0, "nan", "(none)"},
      {DiffKind::prompt_top_ids, [](auto& r) { r.prompts[0].prompt_top_ids[5] = 8; }, "q1", -1, 2, "9", "8"},
      {DiffKind::prompt_top_logprobs, [](auto& r) { r.prompts[0].prompt_top_logprobs[3] = -2.5F; }, "q1", -1, 1, "-2",
       "-2.5"},
      {DiffKind::token_ids, [](auto& r) { r.answers[0].token_ids[3] = 301; }, "q1", 0, 3, "300", "301"},
      {DiffKind::logprobs, [](auto& r) { r.answers[0].logprobs[3] = -0.5F; }, "q1", 0, 3, "-0.4", "-0.5"},
      {DiffKind::top_ids, [](auto& r) { r.answers[0].top_ids[7] = 5; }, "q1", 0, 3, "4", "5"},
      {DiffKind::top_logprobs, [](auto& r) { r.answers[0].top_logprobs[0] = -0.125F; }, "q1", 0, 0, "-0.1", "-0.125"},
      {DiffKind::cumulative_logprob, [](auto& r) { r.answers[2].cumulative_logprob = -1.5; }, "日本", 0, -1, "-1.25",
       "-1.5"},
      {DiffKind::finish_reason, [](auto& r) { r.answers[1].finish_reason = FinishReason::stop; }, "q1", 1, -1, "length",
       "stop"},
      {DiffKind::text, [](auto& r) { r.answers[2].text = "über\n?"; }, "日本", 0, 6, "\uFFFD", "?"},
      {DiffKind::only_in_a, [](auto& r) { r.answers.erase(r.answers.begin() + 1); }, "q1", 1, -1, "an answer", ""},
      {DiffKind::only_in_a, [](auto& r) { r.prompts.pop_back(); }, "later", -1, -1, "a prompt", ""},
      {DiffKind::only_in_b, [](auto& r) { r.prompts.emplace_back().id = "new"; }, "new", -1, -1, "", "a prompt"},
  };
  const RunResult a = sorted_sample();
  for (const Case& c : cases) {
    SCOPED_TRACE(name_of(c.kind));
    RunResult b = a;
    c.change(b);
    const ResultDiff diff = diff_of(a, b);
    EXPECT_FALSE(diff.same());
    EXPECT_EQ(count(diff, c.kind), 1U);
    EXPECT_EQ(total(diff), 1U);
    ASSERT_EQ(diff.first.size(), 1U);
    const Difference& d = diff.first[0];
    EXPECT_EQ(d.kind, c.kind);
    EXPECT_EQ(d.id, c.id);
    EXPECT_EQ(d.sample, c.sample);
    EXPECT_EQ(d.position, c.position);
    EXPECT_EQ(d.a, c.a);
    EXPECT_EQ(d.b, c.b);
  }
}

TEST(ResultDiff, EveryBitCounts) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  b.answers[0].logprobs[1] = std::nextafter(-0.2F, 0.0F);
  EXPECT_EQ(count(diff_of(a, b), DiffKind::logprobs), 1U);
  EXPECT_NEAR(diff_of(a, b).largest_logprob_difference, 1.5e-8, 1e-9);
  RunResult zero = a, minus_zero = a;
  zero.answers[0].logprobs[0] = 0.0F;
  minus_zero.answers[0].logprobs[0] = -0.0F;
  EXPECT_EQ(total(diff_of(zero, minus_zero)), 1U);
}

TEST(ResultDiff, ToleranceIsForLogProbabilitiesAlone) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  b.answers[0].logprobs[1] -= 0.001F;
  b.answers[0].top_logprobs[1] -= 0.0005F;
  b.answers[0].cumulative_logprob -= 0.0035;  // four tokens
  b.prompts[0].prompt_logprobs[1] += 0.0015F;
  const ResultDiff near = diff_of(a, b, {.tolerance = 0.002});
  EXPECT_TRUE(near.same());
  EXPECT_NEAR(near.largest_logprob_difference, 0.0015, 1e-6);
  EXPECT_EQ(total(diff_of(a, b, {.tolerance = 0.0008})), 3U);
  EXPECT_EQ(total(diff_of(a, b)), 4U);
  b = a;
  b.answers[0].logprobs[1] = kNaN;
  EXPECT_FALSE(diff_of(a, b, {.tolerance = 100}).same());
  EXPECT_TRUE(std::isinf(diff_of(a, b).largest_logprob_difference));
  b = a;
  b.answers[0].token_ids[0] = 96;
  EXPECT_EQ(count(diff_of(a, b, {.tolerance = 100}), DiffKind::token_ids), 1U);
}

// After another token everything is about another text: it is different, but how far says nothing.
TEST(ResultDiff, WhatFollowsAnotherTokenIsNotMeasured) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  b.answers[0].token_ids[2] = 99;
  b.answers[0].logprobs[2] = b.answers[0].logprobs[3] = -9.0F;
  const ResultDiff diff = diff_of(a, b);
  EXPECT_EQ(count(diff, DiffKind::token_ids), 1U);
  EXPECT_EQ(count(diff, DiffKind::logprobs), 1U);
  EXPECT_EQ(diff.largest_logprob_difference, 0);
}

// A file's k is the largest that a prompt of the job asked for: the same prompt may stand in a wider or narrower table.
TEST(ResultDiff, EmptyColumnsOfTheBestDoNotCount) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  AnswerRow& answer = b.answers[2];  // k = 1
  answer.top_k = 3;
  answer.top_ids = {4, -1, -1, 6, -1, -1};
  answer.top_logprobs = {-0.5F, kNaN, kNaN, -0.625F, kNaN, kNaN};
  b.answers[1].top_k = 3;
  EXPECT_TRUE(diff_of(a, b).same());
  answer.top_ids[5] = 7;
  const ResultDiff diff = diff_of(a, b);
  ASSERT_EQ(diff.first.size(), 1U);
  EXPECT_EQ(diff.first[0].a, "1 a token");
  EXPECT_EQ(diff.first[0].b, "3 a token");
}

TEST(ResultDiff, OrderOfPromptsDoesNotMatter) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  std::ranges::reverse(b.prompts);
  for (AnswerRow& answer : b.answers) answer.prompt_index = 4 - answer.prompt_index;
  std::ranges::sort(b.answers, {}, [](const AnswerRow& row) { return std::pair(row.prompt_index, row.sample_index); });
  EXPECT_TRUE(diff_of(a, b).same());
  EXPECT_EQ(diff_of(a, b).answers, 3U);
}

TEST(ResultDiff, PartialResults) {
  const RunResult whole = sorted_sample();
  RunResult part = whole;
  part.prompts[1].status = PromptStatus::pending;  // not answered yet
  part.answers.pop_back();
  part.prompts.pop_back();
  const ResultDiff diff = diff_of(part, whole);
  EXPECT_EQ(count(diff, DiffKind::only_in_b), 2U) << "an answer and a prompt";
  EXPECT_EQ(count(diff, DiffKind::status), 1U);
  EXPECT_EQ(total(diff), 3U);
  const ResultDiff common = diff_of(part, whole, {.common_only = true});
  EXPECT_TRUE(common.same());
  EXPECT_EQ(common.prompts, 3U);
  part.answers[0].token_ids[0] = 5;
  EXPECT_EQ(total(diff_of(part, whole, {.common_only = true})), 1U);
}

TEST(ResultDiff, OtherModelsAreToldButCompared) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  b.architecture = "OtherForCausalLM";
  b.kernel_set = "scalar";
  b.dtype_compute = "bfloat16";
  const ResultDiff diff = diff_of(a, b);
  EXPECT_TRUE(diff.same());
  EXPECT_EQ(fmt::format("{}", fmt::join(diff.notes, "\n")),
            "the architecture differs: AnyForCausalLM | OtherForCausalLM\n"
            "the compute type differs: float32 | bfloat16\nthe kernel set differs: avx2 | scalar\n"
            "the first is partial\nthe second is partial");
}

TEST(ResultDiff, WhatTheJobsAskForOtherwiseIsToldOfDifferentAnswers) {
  RunResult a = sorted_sample();
  RunResult b = a;
  a.job_resolved = "model:\n  path: /x\n  dtype: auto\nsampling:\n  top_p: 1.0\n  seed: 0\noutput:\n  file: a: b.h5\n";
  b.job_resolved = "model:\n  path: /y\n  dtype: float32\nsampling:\n  top_p: 1.0\n  seed: 7\noutput:\n  file: b.h5\n";
  const auto told = std::vector<std::string>{"model.dtype: auto | float32", "sampling.seed: 0 | 7"};
  EXPECT_EQ(job_differences(a.job_resolved, b.job_resolved), told);
  EXPECT_EQ(job_differences("", b.job_resolved), std::vector<std::string>());
  EXPECT_EQ(diff_of(a, b).notes.size(), 2U) << "both are partial, and that is all";
  b.answers[0].token_ids[0] += 1;
  const ResultDiff diff = diff_of(a, b);
  EXPECT_EQ(std::ranges::count(diff.notes, "the jobs differ in " + told[1]), 1);
}

TEST(ResultDiff, AnIdThatIsThereTwiceIsRefused) {
  RunResult r = sorted_sample();
  r.prompts[1].id = "q1";
  EXPECT_HAS(complaint(ExitCode::input, [&] { diff_of(sorted_sample(), r); }), "b.h5: two prompts have the id 'q1'");
}

TEST(ResultDiff, OnlyTheFirstDifferencesAreKept) {
  const RunResult a = sorted_sample();
  RunResult b = a;
  for (AnswerRow& answer : b.answers) answer.text += "!";
  const ResultDiff diff = diff_of(a, b, {.most_listed = 2});
  EXPECT_EQ(count(diff, DiffKind::text), 3U);
  EXPECT_EQ(diff.first.size(), 2U);
}

class Diff : public Scratch {
 protected:
  void SetUp() override {
    Scratch::SetUp();
    command_.a = folder_ / "a.h5";
    command_.b = folder_ / "b.h5";
    write_result_file(command_.a, sample_result());
  }
  std::string run(const RunResult& b, int want) {
    write_result_file(command_.b, b);
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_diff(command_), want);
    return ::testing::internal::GetCapturedStdout();
  }
  DiffCommand command_;
};

TEST_F(Diff, SameAnswersGiveZero) {
  EXPECT_HAS(run(sample_result(), 0), "same answers: 5 prompts, 3 answers, 6 tokens\n");
}

TEST_F(Diff, DifferentAnswersGiveOneAndTheFirstPlaces) {
  RunResult b = sample_result();
  b.answers[2].token_ids[1] = 7;
  b.answers[2].logprobs[0] = -0.25F;
  b.prompts.erase(b.prompts.begin() + 4);
  const std::string text = run(b, 1);
  EXPECT_HAS(text, "different: 4 prompts, 3 answers, 6 tokens compared");
  EXPECT_HAS(text, "token_ids");
  EXPECT_HAS(text, "largest difference of a log probability: 0.15\n");
  EXPECT_HAS(text, "  [q1] sample 0 token_ids at 1: 0 | 7\n");
  EXPECT_HAS(text, "  [q1] sample 0 logprobs at 0: -0.1 | -0.25\n");
  EXPECT_HAS(text, "  [later] only_in_a: a prompt\n");
}

TEST_F(Diff, JsonSaysTheSame) {
  RunResult b = sample_result();
  b.answers[2].token_ids[1] = 7;
  b.answers[2].logprobs[0] = kNaN;
  command_.json = true;
  const Json json = parse_json(run(b, 1), "diff --json");
  EXPECT_EQ(json["same"], false);
  EXPECT_EQ(json["counts"], Json({{"token_ids", 1}, {"logprobs", 1}}));
  EXPECT_EQ(json["first"][0],
            Json({{"kind", "token_ids"}, {"id", "q1"}, {"sample_index", 0}, {"position", 1}, {"a", "0"}, {"b", "7"}}));
  EXPECT_TRUE(json["largest_logprob_difference"].is_null());
}

TEST_F(Diff, AFileThatIsNoneIsRefused) {
  EXPECT_HAS(complaint(ExitCode::input, [&] { run_diff(command_); }), "b.h5");
}

}  // namespace
}  // namespace tpinfer::test
