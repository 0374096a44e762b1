#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "output/run_result.hpp"
#include "runtime/answer_store.hpp"
#include "runtime/request.hpp"
#include "text/tokenizer.hpp"

namespace tpinfer {

/// Rank 0's record of a job: what became of each prompt. Answers get their texts and go to the store.
class AnswerBook {
 public:
  /// `prompts`: all of the job, those that cannot run or have finished before with their status already; `requests`:
  /// those that run. `tokenizer` (null: no texts) and `store` must stay.
  AnswerBook(std::vector<PromptRow> prompts, const std::vector<Request>& requests, const Tokenizer* tokenizer,
             AnswerStore& store);

  /// One more prompt, whose request (null: it cannot run) is about to.
  void add(PromptRow row, const Request* request);
  /// Whether there are prompts that have not been added yet.
  void expect_more(bool more);

  /// Decodes the answer's text. The prompt is done with its last sample.
  void take(AnswerRow answer);
  /// One sample has failed: so has the prompt.
  void fail(std::int64_t prompt, const std::string& error);
  /// The prompt's log probabilities.
  void take_scores(std::int64_t prompt, const PromptRow& scores);

  const std::vector<PromptRow>& prompts() const noexcept { return prompts_; }
  std::size_t done() const noexcept { return done_; }      ///< prompts with all of their answers
  std::size_t failed() const noexcept { return failed_; }  ///< prompts
  std::size_t ended() const noexcept { return ended_; }    ///< prompts, in this attempt
  std::size_t before() const noexcept { return before_; }  ///< prompts that had ended before it
  std::size_t left() const noexcept { return total_ - before_ - ended_; }
  /// All prompts of the job have ended.
  bool is_complete() const noexcept { return left() == 0 && !more_; }
  std::size_t total() const noexcept { return total_; }      ///< that are known
  bool more() const noexcept { return more_; }               ///< others may come
  std::uint64_t tokens() const noexcept { return tokens_; }  ///< of this attempt's answers
  /// The prompts as they stand, to be called once: those that have not ended are pending.
  std::vector<PromptRow> give();

 private:
  struct Open {
    std::int64_t samples = 0;  ///< still running
    bool skip_special_tokens = true;
  };
  Open& open(std::int64_t prompt) { return open_[static_cast<std::size_t>(prompt)]; }
  void end_sample(std::int64_t prompt);

  std::vector<PromptRow> prompts_;
  std::vector<Open> open_;  ///< [prompts]
  const Tokenizer* tokenizer_;
  AnswerStore& store_;
  std::uint64_t tokens_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::size_t ended_ = 0;
  std::size_t before_ = 0;
  std::size_t total_ = 0;
  bool more_ = false;
};

}  // namespace tpinfer
