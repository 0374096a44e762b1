#include "runtime/resume.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/error.hpp"
#include "runtime/run_identity.hpp"

namespace tpinfer {
namespace {

template <class Change>
void change(Request& request, Change make) {
  SamplingParams params = *request.params;
  make(params);
  request.params = std::make_shared<const SamplingParams>(params);
}

Request request(std::int64_t index, std::int64_t n = 1) {
  Request r{.prompt_index = index, .token_ids = {1, static_cast<std::int32_t>(index)}};
  change(r, [&](SamplingParams& p) { p.n = n; });
  r.most_new_tokens = 8;
  return r;
}

PromptRow row(const std::string& id) {
  PromptRow r;
  r.id = id;
  return r;
}

// A job of prompts a, b, c, ... with n answers each.
struct Job3 {
  std::vector<PromptRow> prompts{row("a"), row("b"), row("c")};
  std::vector<Request> requests{request(0), request(1, 3), request(2)};
};

JournalPrompt kept(const std::string& id, const Request& r, std::vector<std::int32_t> samples) {
  JournalPrompt p;
  p.row = row(id);
  p.row.content = content_hash(r);
  p.samples = r.params->n;
  p.finished = std::move(samples);
  return p;
}

TEST(Resume, WhatHasFinishedIsLeftOut) {
  JournalContent journal;
  journal.prompts = {kept("a", request(0), {0}), kept("b", request(1, 3), {2, 0})};
  Finished finished;
  finished.add(journal);
  Job3 job;
  const ResumeCounts counts = leave_out_finished(finished, "f", job.prompts, job.requests);
  EXPECT_EQ(counts.prompts, 1);
  EXPECT_EQ(counts.answers, 3);
  EXPECT_EQ(job.prompts[0].status, PromptStatus::done);
  EXPECT_EQ(job.prompts[1].status, PromptStatus::pending);
  ASSERT_EQ(job.requests.size(), 2U);
  EXPECT_EQ(job.requests[0].finished, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(job.requests[0].samples(), 1);
  EXPECT_EQ(samples_of(job.requests), 2);
  EXPECT_EQ(decode_requests(encode(job.requests))[0].finished, job.requests[0].finished);
  // once more changes nothing
  const ResumeCounts again = leave_out_finished(finished, "f", job.prompts, job.requests);
  EXPECT_EQ(again.prompts, 0);
  EXPECT_EQ(job.requests.size(), 2U);
}

TEST(Resume, AFailedPromptHasEndedButOneThatCouldNotRunIsTriedAgain) {
  JournalContent journal;
  journal.prompts = {kept("a", request(0), {}), kept("b", request(1, 3), {1})};
  journal.prompts[0].row.status = PromptStatus::failed;
  journal.prompts[0].row.error = "no token";
  JournalPrompt bad;
  bad.row = row("c");
  bad.row.status = PromptStatus::failed;
  journal.prompts.push_back(bad);
  Finished finished;
  finished.add(journal);
  Job3 job;
  leave_out_finished(finished, "f", job.prompts, job.requests);
  EXPECT_EQ(job.prompts[0].status, PromptStatus::failed);
  EXPECT_EQ(job.prompts[0].error, "no token");
  EXPECT_EQ(job.prompts[2].status, PromptStatus::pending);
  EXPECT_EQ(job.requests.size(), 2U);
}

TEST(Resume, ScoresThatAreMissingRunTheFirstSampleAgain) {
  Job3 job;
  for (Request& r : job.requests) change(r, [](SamplingParams& p) { p.prompt_logprobs = 1; });
  JournalContent journal;
  journal.prompts = {kept("a", job.requests[0], {0}), kept("b", job.requests[1], {0, 1, 2})};
  journal.prompts[0].scored = true;
  Finished finished;
  finished.add(journal);
  leave_out_finished(finished, "f", job.prompts, job.requests);
  EXPECT_EQ(job.prompts[0].status, PromptStatus::done);
  EXPECT_EQ(job.requests[0].finished, (std::vector<std::int32_t>{1, 2}));
}

TEST(Resume, ChangedPromptsAreNamed) {
  Job3 other;
  change(other.requests[1], [](SamplingParams& p) { p.seed = 5; });
  other.requests[2].token_ids.push_back(9);
  JournalContent journal;
  for (std::size_t i = 0; i < 3; ++i) journal.prompts.push_back(kept(other.prompts[i].id, other.requests[i], {0}));
  Finished finished;
  finished.add(journal);
  Job3 job;
  try {
    leave_out_finished(finished, "a.h5", job.prompts, job.requests);
    FAIL() << "taken over";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("a.h5: 2 of the answered prompts are no longer the same"), std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find(": b, c ("), std::string::npos) << e.what();
  }
}

TEST(Resume, TheContentIsAllThatAnAnswerDependsOn) {
  const Request base = request(1);
  const std::uint64_t hash = content_hash(base);
  Request same = base;
  same.prompt_index = 7;
  same.finished = {0};
  EXPECT_EQ(content_hash(same), hash);
  const std::vector<std::function<void(Request&)>> changes = {
      [](Request& r) { r.token_ids.back() = 3; },
      [](Request& r) { change(r, [](SamplingParams& p) { p.temperature = 0.5; }); },
      [](Request& r) { change(r, [](SamplingParams& p) { p.n = 2; }); },
      [](Request& r) { change(r, [](SamplingParams& p) { p.stop = {"x"}; }); },
      [](Request& r) { r.bad_words = {{4}}; },
      [](Request& r) { r.most_new_tokens = 9; },
      [](Request& r) { change(r, [](SamplingParams& p) { p.logit_bias[3] = 1; }); },
      [](Request& r) { change(r, [](SamplingParams& p) { p.logprobs = 0; }); }};
  for (const auto& make : changes) {
    Request other = base;
    make(other);
    EXPECT_NE(content_hash(other), hash);
  }
}

TEST(Resume, IdentitiesTellWhatDiffers) {
  const RunIdentity there{
      {{"a.safetensors", 10, 1}, {"b.safetensors", 10, 1}, {"config.json", 5, 5}}, "float32", 1, "avx2"};
  EXPECT_TRUE(differences(there, there).empty());
  const RunIdentity now{
      {{"a.safetensors", 10, 2}, {"b.safetensors", 11, 1}, {"tokenizer.json", 5, 5}}, "bfloat16", 2, "avx512"};
  EXPECT_EQ(differences(there, now).size(), 7U);
}

TEST(Resume, AFileIsKnownByItsEndsAndByBlocksBetween) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / ("identity_" + std::to_string(::getpid()));
  const std::size_t size = std::size_t{20} << 20;
  std::string bytes(size, 'x');
  const auto of = [&] {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    return file_identity(file, "f");
  };
  const auto whole = of();
  EXPECT_EQ(whole.bytes, size);
  for (const std::size_t at : {std::size_t{0}, size - 1}) {
    bytes[at] = 'y';
    EXPECT_NE(of().hash, whole.hash) << at;
    bytes[at] = 'x';
  }
  bytes.replace(1 << 20, 10 << 20, std::string(10 << 20, 'z'));  // other weights, the same size
  EXPECT_NE(of().hash, whole.hash);
  bytes.resize(100);
  EXPECT_NE(of(), whole);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace tpinfer
