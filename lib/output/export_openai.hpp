#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "output/row_source.hpp"

namespace tpinfer {

/// Why a prompt has no answer, or none that counts: its row's own error, or a sentence.
std::string why_unanswered(const PromptRow& prompt);

/// Lines of an output file of the OpenAI batch API. Token texts are not stored in a result, so the log probabilities
/// name tokens as "token_id:15".
class OpenaiLines {
 public:
  OpenaiLines(const RunLabel& facts, bool chat);

  /// The line of prompt number `index`: a response with a choice for each answer, or an error.
  std::string line(std::size_t index, const PromptRow& prompt, std::span<const AnswerRow> answers) const;

 private:
  RunLabel facts_;
  std::int64_t created_;  ///< seconds since 1970; 0 where the run's time is unknown
  bool chat_;
};

}  // namespace tpinfer
