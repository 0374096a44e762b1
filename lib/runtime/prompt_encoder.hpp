#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/job.hpp"
#include "model/model_spec.hpp"
#include "output/run_result.hpp"
#include "prompts/prompt_record.hpp"
#include "runtime/request.hpp"
#include "text/tokenizer.hpp"

namespace tpinfer {

/// What all prompts of a job are encoded with.
struct EncodingTerms {
  const Job& job;
  const SamplingRequest& generation_config;
  const ModelSpec* spec = nullptr;       ///< null after a fault: what needs it is left out
  const Tokenizer* tokenizer = nullptr;  ///< null: records of token ids alone can be encoded
};

/// A prompt's row of the result, and what is run of it.
struct EncodedPrompt {
  PromptRow row;
  std::optional<Request> request;  ///< none when the prompt fails or is skipped; its prompt_index is not set
  bool is_text = false;            ///< a plain text, no conversation
  bool lacks_tokenizer = false;    ///< a text that could not be encoded
  bool is_cut = false;             ///< prompts.on_too_long has shortened it
  bool begins_twice = false;       ///< the text has the begin token, and the tokenizer has put another before it
};

/// Makes token ids and parameters of records. Any number of threads may use one.
class PromptEncoder {
 public:
  explicit PromptEncoder(const EncodingTerms& terms);

  /// What is wrong with the record becomes the error of its row.
  EncodedPrompt encode(PromptRecord&& record) const;

 private:
  std::vector<std::int32_t> token_ids(const PromptRecord& record) const;
  std::shared_ptr<const SamplingParams> params(const PromptRecord& record) const;
  void fill(PromptRecord& record, EncodedPrompt& prompt) const;
  void fit(const PromptRecord& record, EncodedPrompt& prompt) const;
  void cut(const PromptRecord& record, std::size_t keep, EncodedPrompt& prompt) const;
  void set_limits(Request& request) const;

  EncodingTerms terms_;
  std::int64_t max_model_len_ = 0;
  std::shared_ptr<const SamplingParams> params_;  ///< of a record without its own; null after a fault
};

}  // namespace tpinfer
