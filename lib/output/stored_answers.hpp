#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "output/journal_reader.hpp"
#include "output/row_source.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

/// Whether a result file and a journal belong together.
enum class Kinship : std::uint8_t {
  built,     ///< the result was built from the journal; where it is complete the journal adds nothing
  base,      ///< the journal goes on where the result ends
  replaced,  ///< the result is to be overwritten when the journal's job ends
  none,
};
Kinship kinship(const RunResult& result, const JournalHead& head);

/// Where the answers are that are kept under a name.
struct AnswerFiles {
  std::filesystem::path result, journal;
};
/// `file`: the result file or its journal.
AnswerFiles answer_files(const std::filesystem::path& file);

/// Result and journal as one: the result's rows first, what both have once, attempts in order. Both must be there and
/// of kin (built or base).
RunResult merge(RunResult result, JournalContent journal);

/// The answers that are kept under this name: of the result file, and, while a job runs or after one that did not end,
/// of FILE.journal; FILE may be the journal itself. What a job that runs has finished so far is a result whose state is
/// partial. `damage` gets a sentence for each damaged place of a journal. Error(input) as read_result_file has it.
RunResult read_answers(const std::filesystem::path& file, std::vector<std::string>* damage = nullptr,
                       JournalRows rows = JournalRows::all);

/// The same prompts and answers one after the other: of a result file in parts, of a journal (and a result that it goes
/// on with) from memory.
std::unique_ptr<RowSource> open_answers(const std::filesystem::path& file, std::vector<std::string>* damage = nullptr);

}  // namespace tpinfer
