#include "report/page.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "sample_result.hpp"

namespace tpinfer::test {
namespace {

const std::string kHostile =
    "</title></svg></style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>&lt;\x1B]0;x\a\0{}{"s;

void expect_has(const std::string& page, const std::string& part) {
  EXPECT_NE(page.find(part), std::string::npos) << part;
}
void expect_lacks(const std::string& page, const std::string& part) {
  EXPECT_EQ(page.find(part), std::string::npos) << part;
}

/// Names, without the slash of a closing one, and attributes of all tags, up to the first ">" whatever stands before
/// it.
std::vector<std::pair<std::string, std::string>> tags_of(const std::string& page) {
  std::vector<std::pair<std::string, std::string>> tags;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::string tag = page.substr(at + 1, page.find('>', at) - at - 1);
    const std::size_t begin = tag.starts_with("/") ? 1 : 0;
    const std::size_t end = std::min(tag.find_first_of(" /\n", begin), tag.size());
    tags.emplace_back(tag.substr(begin, end - begin), tag.substr(end));
  }
  return tags;
}

/// Every text of a result that may come from outside.
void poison(RunResult& r) {
  for (auto* text :
       {&r.run_id,       &r.created,       &r.finished,     &r.tpinfer_version, &r.kernel_set,   &r.git_commit,
        &r.hostname,     &r.command,       &r.mpi_library,  &r.hdf5_version,    &r.cuda_driver,  &r.nccl_version,
        &r.slurm_job_id, &r.job_source,    &r.job_resolved, &r.model_path,      &r.architecture, &r.family,
        &r.dtype_stored, &r.dtype_compute, &r.plan_digest,  &r.reproducible})
    *text = kHostile;
  for (auto& tensor : r.plan_tensors) tensor.name = tensor.role = tensor.dtype = tensor.split = kHostile;
  for (auto& name : r.memory_classes) name = kHostile;
  for (auto& name : r.weight_classes) name = kHostile;
  for (auto& prompt : r.prompts) prompt.id = prompt.text = prompt.error = prompt.meta = kHostile;
  for (auto& answer : r.answers) answer.text = kHostile;
  for (auto& rank : r.ranks)
    rank.host = rank.device_kind = rank.device_name = rank.device_uuid = rank.device_pci = rank.cpu_list = kHostile;
  for (auto& event : r.events) event.level = event.message = kHostile;
  for (auto& attempt : r.attempts) attempt.start = attempt.end = attempt.reason = kHostile;
}

TEST(ReportPage, SaysWhatTheResultHolds) {
  const std::string page = report_page(sample_result(), "some/where/a.h5");
  expect_has(page, "<title>a.h5 - tpinfer report</title>");
  expect_has(page, "<b>2 of 5</b><small>1 failed, 1 skipped, 1 pending</small>");
  expect_has(page, "12,345,678,901 parameters, stored as bfloat16, computed in float32");
  expect_has(page, "rank 0 planned");
  expect_has(page, "has 9000 tokens");
  expect_has(page, "1.7 tokens/s");
  expect_has(page, "node-1");
  for (const char* id : {"summary", "memory", "plan", "speed", "time", "lengths", "slowest", "errors", "environment"})
    expect_has(page, "<section id=\"" + std::string(id) + "\"><h2>");
}

TEST(ReportPage, NothingFromOutsideBecomesMarkup) {
  RunResult r = sample_result();
  poison(r);
  const std::string page = report_page(r, kHostile);
  for (const char* word : {"<script", "<img", "</svg></style>", "\x1B"}) expect_lacks(page, word);
  // tags are the page's own, and have no handlers
  const std::set<std::string> own{"html", "head",    "meta",    "title",      "link",  "style", "body", "header",
                                  "h1",   "h2",      "h3",      "span",       "nav",   "a",     "main", "section",
                                  "div",  "b",       "i",       "small",      "dl",    "dt",    "dd",   "p",
                                  "ul",   "li",      "figure",  "figcaption", "svg",   "desc",  "path", "text",
                                  "rect", "circle",  "table",   "thead",      "tbody", "tr",    "th",   "td",
                                  "bdi",  "details", "summary", "pre",        "footer"};
  const auto tags = tags_of(page.substr(page.find("</style>")));
  EXPECT_GT(tags.size(), 200U);
  for (const auto& [name, rest] : tags) {
    EXPECT_TRUE(own.contains(name)) << name << rest;
    EXPECT_EQ(rest.find(" on"), std::string::npos) << rest;
    EXPECT_EQ(rest.find("src="), std::string::npos) << rest;
    const auto link = rest.find("href=\"");
    EXPECT_TRUE(link == std::string::npos || rest[link + 6] == '#') << rest;
  }
}

TEST(ReportPage, NeedsNothingFromElsewhere) {
  const std::string page = report_page(sample_result(), "a.h5");
  for (const char* word : {"http:", "https:", "url(", "@import", "src=", "<script"}) expect_lacks(page, word);
  expect_has(page, "default-src 'none'");
}

TEST(ReportPage, WhatAJournalLacksIsSaid) {
  RunResult r = sample_result();
  r.ranks.clear();
  r.steps.clear();
  r.plan_tensors.clear();
  r.plan_slices.clear();
  const std::string page = report_page(r, "a.h5.journal");
  std::size_t count = 0;
  for (std::size_t at = page.find("is known when the job has ended"); at != std::string::npos;
       at = page.find("is known when the job has ended", at + 1))
    ++count;
  EXPECT_EQ(count, 4U);  // memory, plan, batch and cache, seconds of the ranks
  expect_has(page, "Throughput");
}

TEST(ReportPage, AResultWithoutRowsAndOneOfNonsenseMakePages) {
  expect_has(report_page(RunResult{}, "a.h5"), "There are no answers yet.");
  RunResult r = sample_result();
  const double odd[] = {std::nan(""), HUGE_VAL, -1e300, 1e300};
  std::size_t i = 0;
  for (auto& a : r.answers)
    a.t_queued = odd[i++ % 4], a.t_first_token = odd[i++ % 4], a.t_finished = odd[i++ % 4],
    a.attempt = -7 + 90 * static_cast<int>(i % 2);
  for (auto& s : r.steps) s.t = odd[i++ % 4], s.sequences = -5;
  for (auto& rank : r.ranks) rank.time = {odd[0], odd[1], odd[2], odd[3], -0.0};
  for (auto& s : r.plan_slices) s.tensor = i++ % 2 ? -1 : 10'000, s.axis = 40, s.rank = -3;
  for (auto& a : r.answers) a.prompt_index = i++ % 2 ? -1 : 10'000;
  const std::string page = report_page(r, "a.h5");
  for (const auto& [name, rest] : tags_of(page.substr(page.find("</style>"))))
    if (name == "path" || name == "rect" || name == "text" || name == "svg") {
      EXPECT_EQ(rest.find("nan"), std::string::npos) << name << rest;
      EXPECT_EQ(rest.find("inf"), std::string::npos) << name << rest;
    }
}

TEST(ReportPage, SizeDoesNotGrowWithThePrompts) {
  RunResult r = sample_result();
  const auto grow = [&](std::size_t count) {
    r.prompts.clear();
    r.answers.clear();
    for (std::size_t i = 0; i < count; ++i) {
      PromptRow prompt;
      prompt.id = "prompt number " + std::to_string(i);
      prompt.text = std::string(300, '<');
      prompt.status = PromptStatus::failed;
      prompt.error = std::string(1000, '&');
      prompt.token_ids.resize(i % 700);
      if (i % 3 > 0) {
        prompt.status = PromptStatus::done;
        prompt.error.clear();
        AnswerRow answer;
        answer.prompt_index = static_cast<std::int64_t>(i);
        answer.text = std::string(50, '<');
        answer.token_ids.resize(1 + i % 50);
        answer.t_first_token = static_cast<double>(i % 977);
        answer.t_finished = answer.t_first_token + 20;
        r.answers.push_back(std::move(answer));
      }
      r.prompts.push_back(std::move(prompt));
    }
    r.steps.clear();
    for (std::size_t i = 0; i < std::min<std::size_t>(count, 10'000); ++i)
      r.steps.push_back(
          {.t = static_cast<double>(i) / 10, .sequences = static_cast<std::int32_t>(i % 256), .tokens = 5});
    return report_page(r, "a.h5").size();
  };
  const std::size_t some = grow(1000), many = grow(100'000);
  EXPECT_LT(many, some + 20'000);
  EXPECT_LT(many, 2'000'000U);
  RecordProperty("bytes", static_cast<int>(many));
}

}  // namespace
}  // namespace tpinfer::test
