#include "runtime/answer_store.hpp"

#include <algorithm>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "core/error.hpp"
#include "output/part_file.hpp"
#include "output/result_reader.hpp"
#include "runtime/run_identity.hpp"

namespace tpinfer {
namespace {

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

bool is_settled(const RunResult& result, const std::vector<PromptRow>& prompts) {
  if (result.state != RunState::complete) return false;
  std::unordered_set<std::string_view> ids;
  for (const PromptRow& row : result.prompts) ids.insert(row.id);
  return std::ranges::all_of(prompts, [&](const PromptRow& row) { return ids.contains(row.id); });
}

bool has_records(const JournalContent& journal) {
  return std::ranges::any_of(journal.prompts, [](const JournalPrompt& prompt) {
    return prompt.row.content != 0 && (!prompt.finished.empty() || prompt.row.status == PromptStatus::failed);
  });
}

[[noreturn]] void fail_gone(const JournalFile& file) {
  throw Error(ExitCode::output, fmt::format("{}: its content is gone", file.path().string()));
}

void move_scores(PromptRow& from, PromptRow& to) {
  to.prompt_logprobs = std::move(from.prompt_logprobs);
  to.prompt_top_k = from.prompt_top_k;
  to.prompt_top_ids = std::move(from.prompt_top_ids);
  to.prompt_top_logprobs = std::move(from.prompt_top_logprobs);
}

}  // namespace

AnswerStore::AnswerStore(const OutputJob& output, RunIdentity identity, std::string created, const Log& log)
    : output_(output),
      head_{.run_id = random_id(), .created = std::move(created), .base = {}, .identity = std::move(identity)},
      log_(log) {}

AnswerStore::~AnswerStore() {
  if (!journal_ || has_answers_) return;
  try {
    journal_->remove();
  } catch (const Error&) {  // an empty journal does no harm
  }
}

std::optional<RunResult> AnswerStore::read_base() const {
  if (output_.if_exists == IfExists::overwrite || !output_exists(output_.file)) return std::nullopt;
  try {
    return read_result_file(output_.file);
  } catch (const Error& e) {
    throw Error(ExitCode::output, fmt::format("the result file cannot be added to: {}", e.what()),
                "move it away, or begin anew with --overwrite");
  }
}

void AnswerStore::check_identity(const RunIdentity& there, const std::string& where) const {
  const auto list = differences(there, head_.identity);
  if (list.empty()) return;
  throw Error(ExitCode::usage,
              fmt::format("{}: its answers were made otherwise than this job would: {}", where, fmt::join(list, "; ")),
              "name another output.file, or begin anew with --overwrite");
}

// Leaves in `base` and `journal` what counts; refuses what does not belong to this job.
void AnswerStore::consider(std::optional<RunResult>& base, std::optional<JournalContent>& journal) {
  const std::string journal_name = journal_of(output_.file).string();
  if (journal && (output_.if_exists == IfExists::overwrite || !has_records(*journal))) journal.reset();
  if (base && journal) {
    switch (kinship(*base, journal->head)) {
      case Kinship::built:
        if (base->state == RunState::complete) journal.reset();
        break;
      case Kinship::base: break;
      case Kinship::replaced: base.reset(); break;
      case Kinship::none:
        throw Error(
            ExitCode::output,
            fmt::format("{} has other answers than {}, which it does not belong to", output_.file, journal_name),
            "move one of them away");
    }
  }
  if (journal && !base && !journal->head.base.empty())
    log_.warning("{} goes on from a result file that is gone: what that had is computed again", journal_name);
  if (base) check_identity(base->identity(), output_.file);
  if (journal) check_identity(journal->head.identity, journal_name);
  if (journal)
    for (const std::string& damage : journal->damage) log_.warning("{}", damage);
  if (base) finished_.add(*base);
  if (journal) finished_.add(*journal);
}

AnswerStore::Work AnswerStore::plan(const std::optional<RunResult>& base, std::vector<PromptRow>& prompts,
                                    std::vector<Request>& requests) {
  samples_.assign(prompts.size(), 0);
  for (const Request& request : requests) samples_[static_cast<std::size_t>(request.prompt_index)] = request.params->n;
  resumed_ = leave_out_finished(finished_, output_.file, prompts, requests);
  if (!requests.empty()) return Work::run;
  return base && is_settled(*base, prompts) ? Work::nothing : Work::build;
}

ResumeCounts AnswerStore::look(std::vector<PromptRow>& prompts, std::vector<Request>& requests) {
  check_output_place(output_.file);
  const bool there = journal_exists(output_.file);
  if (output_.if_exists == IfExists::error && (there || output_exists(output_.file)))
    throw Error(
        ExitCode::output,
        fmt::format("{}: {} is there already", output_.file,
                    output_exists(output_.file) ? "the result file" : "the journal of a run that has not ended"),
        "set output.if_exists: resume or overwrite, or give another output.file");
  std::optional<RunResult> base = read_base();
  std::optional<JournalContent> journal;
  if (there) journal = read_journal(journal_of(output_.file), JournalRows::none, ExitCode::output);
  consider(base, journal);
  plan(base, prompts, requests);
  return resumed_;
}

AnswerStore::Work AnswerStore::open(std::vector<PromptRow>& prompts, std::vector<Request>& requests, bool more) {
  check_output_place(output_.file);
  if (output_.if_exists == IfExists::error) look(prompts, requests);
  // a result that has it all is left alone: its folder may be one that cannot be written
  if (output_.if_exists == IfExists::resume && output_exists(output_.file) && !journal_exists(output_.file)) {
    AnswerStore other(output_, head_.identity, head_.created, Log());
    std::vector<PromptRow> rows = prompts;
    std::vector<Request> open = requests;
    std::optional<RunResult> base = read_base();
    std::optional<JournalContent> none;
    other.consider(base, none);
    if (other.plan(base, rows, open) == Work::nothing) {
      prompts = std::move(rows);
      requests.clear();
      resumed_ = other.resumed_;
      return Work::nothing;
    }
  }
  JournalFile file(journal_of(output_.file));
  if (!file.locked())
    log_.warning("{}: this file system has no locks: do not run two jobs with the same output", file.path().string());
  std::optional<RunResult> base = read_base();
  std::optional<JournalContent> journal;
  if (output_.if_exists != IfExists::overwrite)
    journal = read_journal(file.fd(), file.path(), JournalRows::none, ExitCode::output);
  has_answers_ = true;  // until it is known that there are none
  consider(base, journal);
  if (more && finished_.size() > 0)
    throw Error(ExitCode::output, fmt::format("{}: another job has just written answers there", output_.file),
                "run the same command again, which goes on from them");
  start_journal(std::move(file), base, journal);
  const Work work = more ? (plan(base, prompts, requests), Work::run) : plan(base, prompts, requests);
  has_others_ = finished_.size() > resumed_.known;
  numbers_.resize(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i)
    if (const FinishedPrompt* old = finished_.find(prompts[i].id); old && old->content == prompts[i].content)
      numbers_[i] = old->number;
  if (work == Work::nothing) journal_->remove();
  return work;
}

void AnswerStore::start_journal(JournalFile file, const std::optional<RunResult>& base,
                                const std::optional<JournalContent>& content) {
  has_base_ = base.has_value();
  has_answers_ = content.has_value();
  if (content) {
    file.cut(content->end);
    head_ = content->head;
    attempt_ = content->attempts;
    journal_.emplace(std::move(file), FlushRule{output_.flush_every.prompts, output_.flush_every.seconds},
                     content->next_prompt);
    return;
  }
  if (base) {
    head_.base = base->run_id;
    head_.attempts_before = static_cast<std::int32_t>(base->attempts.size());
    head_.created = base->created;
  }
  head_.replaces = output_.if_exists == IfExists::overwrite;
  attempt_ = head_.attempts_before;
  journal_.emplace(std::move(file), FlushRule{output_.flush_every.prompts, output_.flush_every.seconds}, 0);
  journal_->begin(head_);
}

void AnswerStore::begin(const RunResult& about, const std::vector<PromptRow>& prompts) {
  record_ = {.number = attempt_, .prompts = static_cast<std::int64_t>(prompts.size()), .row = {}};
  record_.row.start = about.created;
  record_.row.reason = "interrupted";  // unless it ends in order
  journal_->begin_attempt(record_, about);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    if (prompts[i].status == PromptStatus::failed && prompts[i].content == 0 && !finished_.find(prompts[i].id))
      failed(prompts[i], static_cast<std::int64_t>(i));
}

void AnswerStore::add(const PromptRow& prompt, std::int64_t index, std::int64_t samples) {
  samples_.push_back(samples);
  numbers_.emplace_back();
  if (prompt.status == PromptStatus::failed) failed(prompt, index);
}

void AnswerStore::know_prompts(std::int64_t prompts) {
  record_.prompts = prompts;
  journal_->begin_attempt(record_, {});
}

std::uint32_t AnswerStore::number_of(const PromptRow& prompt, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  if (!numbers_[i]) numbers_[i] = journal_->add_prompt(prompt, samples_[i]);
  return *numbers_[i];
}

void AnswerStore::answer(const PromptRow& prompt, const AnswerRow& row) {
  has_answers_ = true;
  journal_->add_answer(number_of(prompt, row.prompt_index), row);
}

void AnswerStore::scores(const PromptRow& prompt, std::int64_t index, const PromptRow& scores) {
  journal_->add_scores(number_of(prompt, index), scores);
}

void AnswerStore::failed(const PromptRow& prompt, std::int64_t index) {
  if (prompt.content != 0) has_answers_ = true;
  journal_->add_failed(number_of(prompt, index), prompt.error);
}

void AnswerStore::tick() { journal_->tick(); }

void AnswerStore::end(const std::string& end, const std::string& reason, std::int64_t prompts_done) {
  record_.row.end = end;
  record_.row.reason = reason;
  record_.row.prompts_done = prompts_done;
  journal_->end_attempt(record_);
}

RunResult AnswerStore::stored() const {
  const JournalFile& file = journal_->file();
  auto content =
      read_journal(file.fd(), file.path(), has_others_ ? JournalRows::all : JournalRows::answers, ExitCode::output);
  if (!content) fail_gone(file);
  return has_base_ ? merge(read_result_file(output_.file), std::move(*content)) : to_result(std::move(*content));
}

// All rows are those of prompts that the job has: straight from the journal into their places, as there may be many.
void AnswerStore::collect_own(RunResult& result) {
  std::vector<std::int64_t> places;  // [numbers] of prompts
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    if (!numbers_[i]) continue;
    if (*numbers_[i] >= places.size()) places.resize(*numbers_[i] + 1, -1);
    places[*numbers_[i]] = static_cast<std::int64_t>(i);
  }
  const auto place = [&](std::uint32_t number) { return number < places.size() ? places[number] : -1; };
  std::size_t most = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i)
    if (numbers_[i]) most += static_cast<std::size_t>(samples_[i]);
  result.answers.reserve(most);
  const JournalSink sink{.answer =
                             [&](std::uint32_t number, AnswerRow&& row) {
                               row.prompt_index = place(number);
                               if (row.prompt_index >= 0) result.answers.push_back(std::move(row));
                             },
                         .scores =
                             [&](std::uint32_t number, PromptRow&& row) {
                               if (const std::int64_t at = place(number); at >= 0)
                                 move_scores(row, result.prompts[static_cast<std::size_t>(at)]);
                             }};
  const JournalFile& file = journal_->file();
  auto content = read_journal(file.fd(), file.path(), sink, ExitCode::output);
  if (!content) fail_gone(file);
  result.attempts = std::move(content->about.attempts);
}

void AnswerStore::collect_others(RunResult& result) {
  RunResult old = stored();
  std::unordered_map<std::string, std::size_t> rows;
  for (std::size_t i = 0; i < result.prompts.size(); ++i) rows.emplace(result.prompts[i].id, i);
  constexpr std::int64_t kNowhere = -1;
  std::vector<std::int64_t> place;
  for (PromptRow& row : old.prompts) {
    const auto at = rows.find(row.id);
    if (at == rows.end() && row.status != PromptStatus::pending && row.content != 0) {
      place.push_back(static_cast<std::int64_t>(result.prompts.size()));
      result.prompts.push_back(std::move(row));
    } else if (at != rows.end() && result.prompts[at->second].content == row.content) {
      place.push_back(static_cast<std::int64_t>(at->second));
      move_scores(row, result.prompts[at->second]);
    } else {
      place.push_back(kNowhere);
    }
  }
  for (AnswerRow& answer : old.answers) {
    answer.prompt_index = place[static_cast<std::size_t>(answer.prompt_index)];
    if (answer.prompt_index != kNowhere) result.answers.push_back(std::move(answer));
  }
  result.attempts = std::move(old.attempts);
}

void AnswerStore::collect(RunResult& result) {
  if (has_base_ || has_others_)
    collect_others(result);
  else
    collect_own(result);
  const auto key = [](const AnswerRow& a) { return std::pair(a.prompt_index, a.sample_index); };
  std::ranges::sort(result.answers, {}, key);
  const auto twins = std::ranges::unique(result.answers, {}, key);
  result.answers.erase(twins.begin(), twins.end());
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const auto found =
        std::ranges::equal_range(result.answers, static_cast<std::int64_t>(i), {}, &AnswerRow::prompt_index);
    if (result.prompts[i].status == PromptStatus::done && std::cmp_less(found.size(), samples_[i]))
      throw Error(ExitCode::output,
                  fmt::format("{}: the answer of prompt {} cannot be read back", journal_->file().path().string(),
                              result.prompts[i].id),
                  "run the same command again, which computes it anew");
  }
  result.run_id = head_.run_id;
  result.created = head_.created;
  result.model_files = head_.identity.files;
}

void AnswerStore::remove() { journal_->remove(); }

}  // namespace tpinfer
