#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "output/run_result.hpp"
#include "runtime/request.hpp"
#include "runtime/row_work.hpp"
#include "text/stop_strings.hpp"
#include "text/tokenizer.hpp"

namespace tpinfer {

/// What all requests share.
struct AnsweringContext {
  std::vector<std::int32_t> eos_ids;
  std::vector<std::uint8_t> allowed_ids;  ///< [vocab] see SampleContext; empty: all
  const Tokenizer* tokenizer = nullptr;   ///< needed for stop strings only
};

/// One sample of a request on its way: what each row of logits is wanted for, and what came of it.
class Answering {
 public:
  enum class State { going_on, finished, failed };

  Answering(std::shared_ptr<const Request> request, std::int32_t sample, const AnsweringContext& context, double now);

  const Request& request() const noexcept { return *request_; }
  /// Whether this sample tells the prompt's log probabilities: the first one does.
  bool scores_prompt() const noexcept { return request_->params->prompt_logprobs && answer.sample_index == 0; }
  /// What is wanted of the logits at `position`; `tokens` (prompt and answer so far) must outlive the task.
  RowTask task(std::int64_t position, std::span<const std::int32_t> tokens) const;
  /// Takes the outcome of that task; at the prompt's last position and later a new token comes into `answer`, whose
  /// finish_reason is set when it is finished.
  State take(std::int64_t position, const RowOutcome& outcome, double now);

  AnswerRow answer;
  PromptRow scores;   ///< prompt_logprobs and prompt_top_* alone
  std::string error;  ///< why it failed

 private:
  void take_score(std::int64_t position, const RowOutcome& outcome);
  State take_token(const RowOutcome& outcome, double now);
  bool is_stop_id(std::int32_t id) const;
  bool meets_stop_string(std::int32_t id);

  std::shared_ptr<const Request> request_;
  const AnsweringContext& context_;
  std::int64_t prompt_tokens_;
  std::optional<IncrementalDecoder> decoder_;  ///< with stop strings only
  StopStrings stops_;
};

}  // namespace tpinfer
