#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "output/journal_reader.hpp"
#include "output/run_result.hpp"
#include "runtime/request.hpp"

namespace tpinfer {

/// What earlier attempts have left of one prompt.
struct FinishedPrompt {
  std::uint64_t content = 0;          ///< of the request that it was; 0: it could not run
  std::vector<std::int32_t> samples;  ///< that have an answer
  bool scored = false;                ///< its log probabilities are there
  bool failed = false;                ///< it ran, and ended without all of its answers
  std::string error;
  std::optional<std::uint32_t> number;  ///< in the journal
};

/// What earlier attempts have finished, by prompt id.
class Finished {
 public:
  /// Adds the prompts of a result file; before those of the journal that goes on from it.
  void add(const RunResult& result);
  void add(const JournalContent& journal);

  const FinishedPrompt* find(const std::string& id) const;
  std::size_t size() const noexcept { return prompts_.size(); }

 private:
  std::unordered_map<std::string, FinishedPrompt> prompts_;
};

struct ResumeCounts {
  std::int64_t prompts = 0;  ///< with all of their answers, or failed
  std::int64_t answers = 0;  ///< of prompts that the job has
  std::size_t known = 0;     ///< prompts of the job that an earlier attempt had
};

/// Sets `content` of each prompt that can run, and takes out of `prompts` and `requests` what has finished: those
/// prompts become done or failed, their requests go, a request with some of its samples keeps the others.
/// Error(usage) that names the prompts whose token ids or parameters are not those that were answered; `where` is the
/// file that has the answers.
ResumeCounts leave_out_finished(const Finished& finished, const std::string& where, std::vector<PromptRow>& prompts,
                                std::vector<Request>& requests);

}  // namespace tpinfer
