#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.hpp"
#include "output/journal_file.hpp"
#include "output/journal_format.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

/// What a journal is about, said once at its beginning.
struct JournalHead {
  std::string run_id;                ///< the result file that is built from it has the same one
  std::string created;               ///< ISO 8601 UTC
  std::string base;                  ///< run_id of the result file whose answers count too; empty: none
  bool replaces = false;             ///< a result file that is there is to be overwritten
  std::int32_t attempts_before = 0;  ///< of the base
  RunIdentity identity;
};

/// One start of the program.
struct JournalAttempt {
  std::int32_t number = 0;
  std::int64_t prompts = 0;  ///< of the whole job
  AttemptRow row;
};

/// When what was written must be on the disk.
struct FlushRule {
  std::int64_t records = 64;  ///< answers and failures
  double seconds = 10;
};

/// The record of a job's finished answers, written as they finish. A record is with the operating system when its
/// function returns, so that a killed process loses none, and on the disk as the rule says. Error(output) where the
/// file system refuses; what is there already stays.
class Journal {
 public:
  /// Goes on at the end of `file`. `next_prompt`: the first number that no prompt in it has.
  Journal(JournalFile file, const FlushRule& rule, std::uint32_t next_prompt);

  /// Makes the file, whatever it held, a journal with this head.
  void begin(const JournalHead& head);
  /// `about`: its fields on program, host, job, model and plan sizes are kept for readers. Once more for the same
  /// attempt when the number of its prompts has become known; `about` is of no account then.
  void begin_attempt(const JournalAttempt& attempt, const RunResult& about);
  void end_attempt(const JournalAttempt& attempt);
  /// -> the number that the prompt has in the other records. `samples`: answers that it will have.
  std::uint32_t add_prompt(const PromptRow& prompt, std::int64_t samples);
  void add_answer(std::uint32_t prompt, const AnswerRow& answer);
  /// prompt_logprobs and prompt_top_* of a prompt.
  void add_scores(std::uint32_t prompt, const PromptRow& scores);
  /// The prompt has ended, with fewer answers than it should have.
  void add_failed(std::uint32_t prompt, const std::string& error);

  /// Syncs when the rule says so; to be called often.
  void tick();
  void sync();
  const JournalFile& file() const noexcept { return file_; }
  std::int64_t syncs() const noexcept { return syncs_; }
  void remove() { file_.remove(); }

 private:
  ByteWriter payload();
  void add(JournalKind kind, ByteWriter written);
  void count();

  JournalFile file_;
  FlushRule rule_;
  std::uint32_t next_prompt_;
  std::vector<std::byte> payload_, record_;
  std::int64_t unsynced_ = 0;                    ///< answers and failures
  std::chrono::steady_clock::time_point since_;  ///< when the first of these came
  std::int64_t syncs_ = 0;
};

}  // namespace tpinfer
