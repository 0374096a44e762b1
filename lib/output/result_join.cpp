#include "output/result_join.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "core/error.hpp"
#include "output/result_diff.hpp"

namespace tpinfer {
namespace {

// Rows that both have finished must be the same.
void refuse_conflicts(const RunResult& all, const RunResult& part, const std::string& name) {
  const ResultDiff diff = diff_results(all, "the parts before " + name, part, name, {.common_only = true});
  if (diff.same()) return;
  const Difference& d = diff.first.front();
  throw Error(
      ExitCode::input,
      fmt::format("{}: the prompt '{}' differs from a part before it in its {}{}", name, d.id, name_of(d.kind),
                  diff.first.size() > 1 ? fmt::format(" (and {} more differences)", diff.first.size() - 1) : ""),
      "see tpinfer diff --common of the two; merge results of one job alone");
}

class Join {
 public:
  explicit Join(RunResult first) : all_(std::move(first)) {
    for (std::size_t i = 0; i < all_.prompts.size(); ++i) row_of_.emplace(all_.prompts[i].id, i);
  }

  void add(RunResult part, const std::string& name) {
    if (std::ranges::any_of(part.prompts, [&](const PromptRow& prompt) { return row_of_.contains(prompt.id); }))
      refuse_conflicts(all_, part, name);
    const auto attempts = static_cast<std::int32_t>(all_.attempts.size());
    std::vector<std::int64_t> becomes;  // row of the whole, by row of the part; -1: the row is there already
    std::unordered_set<std::int64_t> replaced;
    for (PromptRow& prompt : part.prompts) becomes.push_back(take(std::move(prompt), replaced));
    if (!replaced.empty())  // samples of prompts that were not finished
      std::erase_if(all_.answers, [&](const AnswerRow& row) { return replaced.contains(row.prompt_index); });
    for (AnswerRow& answer : part.answers) {
      const std::int64_t row = becomes[static_cast<std::size_t>(answer.prompt_index)];
      if (row < 0) continue;
      answer.prompt_index = row;
      answer.attempt += attempts;
      all_.answers.push_back(std::move(answer));
    }
    std::ranges::move(part.attempts, std::back_inserter(all_.attempts));
    std::ranges::move(part.events, std::back_inserter(all_.events));
    all_.created = std::min(all_.created, part.created);
    all_.finished = std::max(all_.finished, part.finished);
  }

  RunResult take_all() {
    const bool open = std::ranges::any_of(
        all_.prompts, [](const PromptRow& prompt) { return prompt.status == PromptStatus::pending; });
    all_.state = open ? RunState::partial : RunState::complete;
    std::ranges::sort(all_.answers, {},
                      [](const AnswerRow& row) { return std::pair(row.prompt_index, row.sample_index); });
    return std::move(all_);
  }

 private:
  // -> its row, or -1 where the row that is there stays
  std::int64_t take(PromptRow prompt, std::unordered_set<std::int64_t>& replaced) {
    const auto [at, added] = row_of_.emplace(prompt.id, all_.prompts.size());
    if (added) {
      all_.prompts.push_back(std::move(prompt));
    } else {
      PromptRow& there = all_.prompts[at->second];
      if (there.status != PromptStatus::pending || prompt.status == PromptStatus::pending) return -1;
      replaced.insert(static_cast<std::int64_t>(at->second));
      there = std::move(prompt);
    }
    return static_cast<std::int64_t>(at->second);
  }

  RunResult all_;
  std::unordered_map<std::string, std::size_t> row_of_;
};

}  // namespace

RunResult join_results(std::vector<RunResult> parts, const std::vector<std::string>& names) {
  if (parts.empty()) throw Error(ExitCode::usage, "there are no results to merge");
  Join join(std::move(parts.front()));
  for (std::size_t i = 1; i < parts.size(); ++i) join.add(std::move(parts[i]), names[i]);
  return join.take_all();
}

}  // namespace tpinfer
