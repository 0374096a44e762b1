#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "output/run_result.hpp"
#include "runtime/request.hpp"
#include "text/tokenizer.hpp"

namespace tpinfer {

/// Rank 0's record of a job: what became of each prompt, and the answers with their texts.
class AnswerBook {
 public:
  /// `prompts`: all of the job, those that cannot run failed already; `requests`: those that run. `tokenizer` (null: no
  /// texts) must stay.
  AnswerBook(std::vector<PromptRow> prompts, const std::vector<Request>& requests, const Tokenizer* tokenizer);

  /// Decodes the answer's text. The prompt is done with its last sample.
  void take(AnswerRow answer);
  /// One sample has failed: so has the prompt.
  void fail(std::int64_t prompt, const std::string& error);
  /// The prompt's log probabilities.
  void take_scores(std::int64_t prompt, PromptRow& scores);

  const std::vector<PromptRow>& prompts() const noexcept { return prompts_; }
  const std::vector<AnswerRow>& answers() const noexcept { return answers_; }
  std::size_t done() const noexcept { return done_; }      ///< prompts with all of their answers
  std::size_t failed() const noexcept { return failed_; }  ///< prompts
  std::uint64_t tokens() const noexcept { return tokens_; }
  /// Moves everything into the result.
  void give(RunResult& result);

 private:
  struct Open {
    std::int64_t samples = 0;  ///< still running
    bool skip_special_tokens = true;
  };
  Open& open(std::int64_t prompt) { return open_[static_cast<std::size_t>(prompt)]; }
  void end_sample(std::int64_t prompt);

  std::vector<PromptRow> prompts_;
  std::vector<Open> open_;  ///< [prompts]
  std::vector<AnswerRow> answers_;
  const Tokenizer* tokenizer_;
  std::uint64_t tokens_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace tpinfer
