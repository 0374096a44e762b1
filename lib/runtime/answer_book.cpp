#include "runtime/answer_book.hpp"

#include <algorithm>

namespace tpinfer {

AnswerBook::AnswerBook(std::vector<PromptRow> prompts, const std::vector<Request>& requests, const Tokenizer* tokenizer,
                       AnswerStore& store)
    : prompts_(std::move(prompts)), open_(prompts_.size()), tokenizer_(tokenizer), store_(store) {
  for (const Request& request : requests)
    open(request.prompt_index) = {request.samples(), request.params->skip_special_tokens};
  done_ = static_cast<std::size_t>(std::ranges::count(prompts_, PromptStatus::done, &PromptRow::status));
  failed_ = static_cast<std::size_t>(std::ranges::count(prompts_, PromptStatus::failed, &PromptRow::status));
  total_ = prompts_.size();
  before_ = total_ - requests.size();
}

void AnswerBook::add(PromptRow row, const Request* request) {
  open_.push_back(request ? Open{request->samples(), request->params->skip_special_tokens} : Open{});
  store_.add(row, static_cast<std::int64_t>(total_), request ? request->params->n : 0);
  if (row.status == PromptStatus::failed) ++failed_;
  if (!request) ++before_;
  ++total_;
  prompts_.push_back(std::move(row));
}

void AnswerBook::expect_more(bool more) {
  more_ = more;
  if (!more) store_.know_prompts(static_cast<std::int64_t>(total_));
}

void AnswerBook::end_sample(std::int64_t prompt) {
  PromptRow& row = prompts_[static_cast<std::size_t>(prompt)];
  if (--open(prompt).samples > 0) return;
  ++ended_;
  if (row.status == PromptStatus::failed) return store_.failed(row, prompt);
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
  answer.attempt = store_.attempt();
  store_.answer(prompts_[static_cast<std::size_t>(answer.prompt_index)], answer);
  end_sample(answer.prompt_index);
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

void AnswerBook::take_scores(std::int64_t prompt, const PromptRow& scores) {
  store_.scores(prompts_[static_cast<std::size_t>(prompt)], prompt, scores);
}

// A prompt of which some samples have failed and others not run is to run again.
std::vector<PromptRow> AnswerBook::give() {
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    if (open_[i].samples <= 0 || prompts_[i].status == PromptStatus::pending) continue;
    prompts_[i].status = PromptStatus::pending;
    prompts_[i].error.clear();
    --failed_;
  }
  return std::move(prompts_);
}

}  // namespace tpinfer
