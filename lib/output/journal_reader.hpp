#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "output/journal.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

/// A prompt of a journal and what of it has finished.
struct JournalPrompt {
  PromptRow row;                       ///< status: done with all of its samples, failed, else pending
  std::int64_t samples = 1;            ///< that it should have
  std::vector<std::int32_t> finished;  ///< samples that have an answer, ascending
  bool scored = false;                 ///< its log probabilities are there
  std::uint32_t number = 0;            ///< in the records
};

struct JournalContent {
  JournalHead head;
  RunResult about;                     ///< of the last attempt: only what Journal::begin_attempt keeps, and attempts
  std::vector<JournalPrompt> prompts;  ///< one for each id
  std::vector<AnswerRow> answers;      ///< prompt_index: of `prompts`; by prompt and sample, each once
  std::int64_t job_prompts = 0;        ///< of the whole job at the last attempt
  std::int32_t attempts = 0;           ///< with those of the base; the next one has this number
  std::uint32_t next_prompt = 0;       ///< first number that no prompt has
  std::uint64_t end = 0;               ///< bytes up to the end of the last sound record
  std::vector<std::string> damage;     ///< a sentence for each place before that where records are damaged
};

/// Rows take memory: everything; answers and scores, but no prompt's text, ids and meta; only what there is.
enum class JournalRows : std::uint8_t { all, answers, none };

/// Reads a journal, also while it is being written: what follows the last sound record is left out. Nothing when the
/// file has not even a head yet. An Error of this code that names the file when it cannot be read, is no journal, or
/// has another version.
std::optional<JournalContent> read_journal(int fd, const std::filesystem::path& name, JournalRows rows, ExitCode code);
std::optional<JournalContent> read_journal(const std::filesystem::path& file, JournalRows rows, ExitCode code);

/// Takes answers and scores as they stand in the file, some perhaps twice, with the number of their prompt.
struct JournalSink {
  std::function<void(std::uint32_t prompt, AnswerRow&& answer)> answer;
  std::function<void(std::uint32_t prompt, PromptRow&& scores)> scores;
};

/// The same for a journal with many rows: all of them go to the sink, `prompts` and `answers` stay empty.
std::optional<JournalContent> read_journal(int fd, const std::filesystem::path& name, const JournalSink& sink,
                                           ExitCode code);

/// How far a job is, by its journal.
struct JournalProgress {
  std::int64_t prompts = 0;       ///< of the whole job
  std::int64_t done = 0;          ///< with all of their answers, in the journal
  std::int64_t failed = 0;        ///< likewise
  std::int64_t ended_before = 0;  ///< of these, before the last attempt
  std::uint64_t tokens = 0;       ///< of the last attempt's answers
  double seconds = 0;             ///< from the last attempt's beginning to its last answer
  bool attempt_has_ended = false;
  std::string base;  ///< run_id of the result file whose answers count too; empty: none
};

/// Follows a journal while a job writes it; reads each record once.
class JournalFollower {
 public:
  explicit JournalFollower(std::filesystem::path file);
  ~JournalFollower();
  JournalFollower(const JournalFollower&) = delete;
  JournalFollower& operator=(const JournalFollower&) = delete;

  /// Takes what has come since the last look; false when there is no journal (any more). Error(input) as read_journal.
  bool look();
  const JournalProgress& progress() const noexcept { return progress_; }
  /// Whether a job has it open; true as well where the file system can not tell.
  bool held() const;

 private:
  struct State;
  std::filesystem::path file_;
  std::unique_ptr<State> state_;
  JournalProgress progress_;
};

/// The answers of a journal as a result whose state is partial; ranks, steps and the plan's tables are empty.
RunResult to_result(JournalContent content);

}  // namespace tpinfer
