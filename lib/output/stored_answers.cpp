#include "output/stored_answers.hpp"

#include <algorithm>
#include <unordered_map>

#include "core/error.hpp"
#include "output/result_reader.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kSuffix = ".journal";

// FILE of FILE.journal; empty for another name
fs::path without_suffix(const fs::path& file) {
  const std::string name = file.string();
  return name.ends_with(kSuffix) ? fs::path(name.substr(0, name.size() - kSuffix.size())) : fs::path();
}

bool is_there(const fs::path& file) {
  std::error_code ec;
  return fs::exists(file, ec);
}

// The attempts before the journal's are the base's; those that the result has beyond are the journal's too.
std::vector<AttemptRow> all_attempts(std::vector<AttemptRow> result, const JournalContent& journal) {
  result.resize(static_cast<std::size_t>(std::max(0, journal.head.attempts_before)));
  result.insert(result.end(), journal.about.attempts.begin(), journal.about.attempts.end());
  return result;
}

/// Rows of a result in memory.
class HeldRows : public RowSource {
 public:
  explicit HeldRows(RunResult result)
      : result_(std::move(result)), facts_{result_.run_id, result_.created, result_.model_path} {}

  const RunLabel& facts() const override { return facts_; }

  bool next(PromptRow& prompt, std::vector<AnswerRow>& answers) override {
    if (prompt_ == result_.prompts.size()) return false;
    const auto index = static_cast<std::int64_t>(prompt_);
    prompt = std::move(result_.prompts[prompt_++]);
    answers.clear();
    for (; answer_ < result_.answers.size() && result_.answers[answer_].prompt_index == index; ++answer_)
      answers.push_back(std::move(result_.answers[answer_]));
    return true;
  }

 private:
  RunResult result_;  ///< answers in order of prompt and sample
  RunLabel facts_;
  std::size_t prompt_ = 0, answer_ = 0;
};

}  // namespace

AnswerFiles answer_files(const fs::path& file) {
  const fs::path named = without_suffix(file);
  return named.empty() ? AnswerFiles{file, journal_of(file)} : AnswerFiles{named, file};
}

Kinship kinship(const RunResult& result, const JournalHead& head) {
  if (result.run_id == head.run_id) return Kinship::built;
  if (!head.base.empty() && result.run_id == head.base) return Kinship::base;
  return head.replaces ? Kinship::replaced : Kinship::none;
}

RunResult merge(RunResult result, JournalContent journal) {
  result.attempts = all_attempts(std::move(result.attempts), journal);
  result.state = RunState::partial;
  result.run_id = journal.head.run_id;
  std::unordered_map<std::string, std::size_t> rows;
  for (std::size_t i = 0; i < result.prompts.size(); ++i) rows.emplace(result.prompts[i].id, i);
  std::vector<std::int64_t> place;  // of the journal's prompts
  for (JournalPrompt& prompt : journal.prompts) {
    const auto [at, fresh] = rows.emplace(prompt.row.id, result.prompts.size());
    place.push_back(static_cast<std::int64_t>(at->second));
    if (fresh) {
      result.prompts.push_back(std::move(prompt.row));
    } else if (PromptRow& old = result.prompts[at->second];
               old.status != PromptStatus::done || old.content != prompt.row.content) {
      old = std::move(prompt.row);
    }
  }
  for (AnswerRow& answer : journal.answers) {
    answer.prompt_index = place[static_cast<std::size_t>(answer.prompt_index)];
    result.answers.push_back(std::move(answer));
  }
  const auto key = [](const AnswerRow& a) { return std::pair(a.prompt_index, a.sample_index); };
  std::ranges::stable_sort(result.answers, {}, key);
  const auto twins = std::ranges::unique(result.answers, {}, key);
  result.answers.erase(twins.begin(), twins.end());
  // some of a prompt's samples may be in the one, some in the other
  for (std::size_t i = 0; i < place.size(); ++i) {
    PromptRow& row = result.prompts[static_cast<std::size_t>(place[i])];
    const auto samples = std::ranges::equal_range(result.answers, place[i], {}, &AnswerRow::prompt_index).size();
    if (row.status == PromptStatus::pending && std::cmp_greater_equal(samples, journal.prompts[i].samples))
      row.status = PromptStatus::done;
  }
  return result;
}

RunResult read_answers(const fs::path& file, std::vector<std::string>* damage, JournalRows rows) {
  const auto [result_file, journal_file] = answer_files(file);
  if (!is_there(journal_file)) return read_result_file(result_file);
  std::optional<JournalContent> journal = read_journal(journal_file, rows, ExitCode::input);
  if (journal && damage) *damage = journal->damage;
  if (!is_there(result_file)) {
    if (!journal) fail_input("{}: the job has only begun, there are no answers yet", journal_file.string());
    return to_result(std::move(*journal));
  }
  RunResult result = read_result_file(result_file);
  if (!journal) return result;
  switch (kinship(result, journal->head)) {
    case Kinship::built:
      if (result.state == RunState::complete) return result;
      [[fallthrough]];
    case Kinship::base: return merge(std::move(result), std::move(*journal));
    default: return file == result_file ? std::move(result) : to_result(std::move(*journal));
  }
}

std::unique_ptr<RowSource> open_answers(const fs::path& file, std::vector<std::string>* damage) {
  const bool is_result = without_suffix(file).empty() && !is_there(journal_of(file));
  if (is_result) return open_result_rows(file);
  return std::make_unique<HeldRows>(read_answers(file, damage));
}

}  // namespace tpinfer
