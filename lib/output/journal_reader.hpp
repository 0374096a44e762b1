#pragma once

#include <filesystem>
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

/// The answers of a journal as a result whose state is partial; ranks, steps and the plan's tables are empty.
RunResult to_result(JournalContent content);

}  // namespace tpinfer
