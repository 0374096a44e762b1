#include "runtime/resume.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostNamed = 10;

std::string name_ids(const std::vector<std::string>& ids) {
  const std::size_t named = std::min(ids.size(), kMostNamed);
  std::string text = fmt::format("{}", fmt::join(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  return ids.size() == named ? text : text + fmt::format(" and {} more", ids.size() - named);
}

// Ids of prompts that are no longer what was answered.
std::vector<std::string> changed_prompts(const Finished& finished, const std::vector<PromptRow>& prompts) {
  std::vector<std::string> ids;
  for (const PromptRow& row : prompts) {
    const FinishedPrompt* old = finished.find(row.id);
    const bool ran = old && old->content != 0 && (!old->samples.empty() || old->failed || old->scored);
    if (ran && old->content != row.content) ids.push_back(row.id);
  }
  return ids;
}

// -> whether nothing of the request is left to do
bool take_over(const FinishedPrompt& old, PromptRow& row, Request& request, ResumeCounts& counts) {
  request.finished = old.samples;
  std::erase_if(request.finished, [&](std::int32_t sample) { return sample >= request.params->n; });
  // the first sample tells the prompt's log probabilities
  if (request.params->prompt_logprobs && !old.scored) std::erase(request.finished, 0);
  std::ranges::sort(request.finished);
  counts.answers += static_cast<std::int64_t>(request.finished.size());
  if (old.failed) {
    row.status = PromptStatus::failed;
    row.error = old.error;
  } else if (request.samples() == 0) {
    row.status = PromptStatus::done;
  } else {
    return false;
  }
  ++counts.prompts;
  return true;
}

}  // namespace

void Finished::add(const RunResult& result) {
  std::vector<FinishedPrompt*> rows;
  for (const PromptRow& row : result.prompts) {
    FinishedPrompt& prompt = prompts_[row.id];
    prompt = {.content = row.content,
              .samples = {},
              .scored = !row.prompt_logprobs.empty(),
              .failed = row.status == PromptStatus::failed && row.content != 0,
              .error = row.error,
              .number = {}};
    rows.push_back(&prompt);
  }
  for (const AnswerRow& answer : result.answers)
    rows[static_cast<std::size_t>(answer.prompt_index)]->samples.push_back(answer.sample_index);
}

void Finished::add(const JournalContent& journal) {
  for (const JournalPrompt& row : journal.prompts) {
    FinishedPrompt& prompt = prompts_[row.row.id];
    if (prompt.content != row.row.content)
      prompt = {.content = row.row.content, .samples = {}, .error = {}, .number = {}};
    for (const std::int32_t sample : row.finished)
      if (std::ranges::find(prompt.samples, sample) == prompt.samples.end()) prompt.samples.push_back(sample);
    prompt.scored |= row.scored;
    if (row.row.status == PromptStatus::failed && row.row.content != 0) {
      prompt.failed = true;
      prompt.error = row.row.error;
    }
    prompt.number = row.number;
  }
}

const FinishedPrompt* Finished::find(const std::string& id) const {
  const auto at = prompts_.find(id);
  return at == prompts_.end() ? nullptr : &at->second;
}

ResumeCounts leave_out_finished(const Finished& finished, const std::string& where, std::vector<PromptRow>& prompts,
                                std::vector<Request>& requests) {
  for (const Request& request : requests)
    prompts[static_cast<std::size_t>(request.prompt_index)].content = content_hash(request);
  if (const auto ids = changed_prompts(finished, prompts); !ids.empty())
    throw Error(ExitCode::usage,
                fmt::format("{}: {} of the answered prompts {} no longer the same (token ids or sampling): {}", where,
                            ids.size(), ids.size() == 1 ? "is" : "are", name_ids(ids)),
                "give changed prompts new ids, name another output.file, or begin anew with --overwrite");
  ResumeCounts counts;
  for (const PromptRow& row : prompts) counts.known += finished.find(row.id) ? 1 : 0;
  std::erase_if(requests, [&](Request& request) {
    PromptRow& row = prompts[static_cast<std::size_t>(request.prompt_index)];
    const FinishedPrompt* old = finished.find(row.id);
    return old && old->content == row.content && take_over(*old, row, request, counts);
  });
  return counts;
}

}  // namespace tpinfer
