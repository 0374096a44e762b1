#include "runtime/answer_book.hpp"

#include <algorithm>

namespace tpinfer {

AnswerBook::AnswerBook(std::vector<PromptRow> prompts, const std::vector<Request>& requests, const Tokenizer* tokenizer)
    : prompts_(std::move(prompts)), open_(prompts_.size()), tokenizer_(tokenizer) {
  for (const Request& request : requests)
    open(request.prompt_index) = {request.params.n, request.params.skip_special_tokens};
  failed_ = static_cast<std::size_t>(std::ranges::count(prompts_, PromptStatus::failed, &PromptRow::status));
}

void AnswerBook::end_sample(std::int64_t prompt) {
  PromptRow& row = prompts_[static_cast<std::size_t>(prompt)];
  if (--open(prompt).samples > 0 || row.status == PromptStatus::failed) return;
  row.status = PromptStatus::done;
  ++done_;
}

void AnswerBook::take(AnswerRow answer) {
  tokens_ += answer.token_ids.size();
  if (tokenizer_) {
    answer.text = tokenizer_->decode(answer.token_ids, open(answer.prompt_index).skip_special_tokens);
    if (answer.text_bytes >= 0)
      answer.text.resize(std::min(answer.text.size(), static_cast<std::size_t>(answer.text_bytes)));
    answer.text_lossy = answer.text.find("\xEF\xBF\xBD") != std::string::npos;
  }
  answers_.push_back(std::move(answer));
  end_sample(answers_.back().prompt_index);
}

void AnswerBook::fail(std::int64_t prompt, const std::string& error) {
  PromptRow& row = prompts_[static_cast<std::size_t>(prompt)];
  if (row.status != PromptStatus::failed) {
    row.status = PromptStatus::failed;
    row.error = error;
    ++failed_;
  }
  end_sample(prompt);
}

void AnswerBook::take_scores(std::int64_t prompt, PromptRow& scores) {
  PromptRow& row = prompts_[static_cast<std::size_t>(prompt)];
  row.prompt_logprobs = std::move(scores.prompt_logprobs);
  row.prompt_top_k = scores.prompt_top_k;
  row.prompt_top_ids = std::move(scores.prompt_top_ids);
  row.prompt_top_logprobs = std::move(scores.prompt_top_logprobs);
}

void AnswerBook::give(RunResult& result) {
  std::ranges::sort(answers_, {}, [](const AnswerRow& a) { return std::pair(a.prompt_index, a.sample_index); });
  result.prompts = std::move(prompts_);
  result.answers = std::move(answers_);
}

}  // namespace tpinfer
