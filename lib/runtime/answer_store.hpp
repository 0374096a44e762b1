#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "job/job.hpp"
#include "output/journal.hpp"
#include "output/stored_answers.hpp"
#include "runtime/resume.hpp"

namespace tpinfer {

/// Rank 0's durable record of a job: the journal beside the result file, and what earlier attempts have left. Answers
/// that have been given to it are not kept in memory.
class AnswerStore {
 public:
  enum class Work : std::uint8_t {
    nothing,  ///< the result file has it all
    build,    ///< all has finished, but the result file does not say so
    run,
  };

  /// `created`: when this attempt began.
  AnswerStore(const OutputJob& output, RunIdentity identity, std::string created, const Log& log);
  /// Removes a journal that has no answers.
  ~AnswerStore();
  AnswerStore(const AnswerStore&) = delete;
  AnswerStore& operator=(const AnswerStore&) = delete;

  /// Finds out, under output.if_exists, what is left to do, and takes the rest out of `prompts` and `requests`. From
  /// then on no other job can write this result. Error(output): a result is there that must stay, another job has it,
  /// it cannot be written; Error(usage): it was made by another model, type or kernels, or prompts have changed.
  /// With `more` these are the first of the job, and no earlier attempt may have left anything.
  Work open(std::vector<PromptRow>& prompts, std::vector<Request>& requests, bool more = false);
  /// The same without writing anything, to tell what open() would complain about.
  ResumeCounts look(std::vector<PromptRow>& prompts, std::vector<Request>& requests);

  /// What earlier attempts have finished of this job.
  const ResumeCounts& resumed() const noexcept { return resumed_; }
  /// Number of this attempt.
  std::int32_t attempt() const noexcept { return attempt_; }
  int journal_fd() const noexcept { return journal_ ? journal_->file().fd() : -1; }

  /// After open(), before the first answer. `about`: see Journal::begin_attempt.
  void begin(const RunResult& about, const std::vector<PromptRow>& prompts);
  /// A prompt that has become known since, the next one in order. `samples` that it should have.
  void add(const PromptRow& prompt, std::int64_t index, std::int64_t samples);
  /// After the last of these: how many prompts the job has.
  void know_prompts(std::int64_t prompts);
  void answer(const PromptRow& prompt, const AnswerRow& row);
  void scores(const PromptRow& prompt, std::int64_t index, const PromptRow& scores);
  void failed(const PromptRow& prompt, std::int64_t index);
  /// Syncs the journal when it is due.
  void tick();

  /// Ends the attempt: the journal is complete and synced afterwards.
  void end(const std::string& end, const std::string& reason, std::int64_t prompts_done);
  /// Adds to a result, whose prompts are those of the job: all answers and scores that there are, attempts and run_id;
  /// prompts that the job no longer has, but which were answered, come after the others.
  void collect(RunResult& result);
  /// After the result file is durable and complete.
  void remove();

 private:
  std::optional<RunResult> read_base() const;
  void check_identity(const RunIdentity& there, const std::string& where) const;
  Work plan(const std::optional<RunResult>& base, std::vector<PromptRow>& prompts, std::vector<Request>& requests);
  void consider(std::optional<RunResult>& base, std::optional<JournalContent>& journal);
  void start_journal(JournalFile file, const std::optional<RunResult>& base,
                     const std::optional<JournalContent>& content);
  std::uint32_t number_of(const PromptRow& prompt, std::int64_t index);
  RunResult stored() const;
  void collect_others(RunResult& result);
  void collect_own(RunResult& result);

  const OutputJob& output_;
  JournalHead head_;
  Log log_;
  std::optional<Journal> journal_;
  Finished finished_;
  ResumeCounts resumed_;
  std::int32_t attempt_ = 0;
  JournalAttempt record_;
  bool has_base_ = false;                              ///< the result file's rows count
  bool has_others_ = false;                            ///< there are answers of prompts that the job does not have
  bool has_answers_ = false;                           ///< the journal, that is
  std::vector<std::optional<std::uint32_t>> numbers_;  ///< [prompts] in the journal
  std::vector<std::int64_t> samples_;                  ///< [prompts] that each should have
};

}  // namespace tpinfer
