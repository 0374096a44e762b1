#include "runtime/answering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

Answering::Answering(std::shared_ptr<const Request> request, std::int32_t sample, const AnsweringContext& context,
                     double now)
    : request_(std::move(request)),
      context_(context),
      prompt_tokens_(static_cast<std::int64_t>(request_->token_ids.size())),
      stops_(request_->params->stop) {
  const SamplingParams& params = *request_->params;
  answer.prompt_index = request_->prompt_index;
  answer.sample_index = sample;
  answer.top_k = static_cast<std::int32_t>(params.logprobs.value_or(0));
  answer.t_queued = now;
  const auto most = static_cast<std::size_t>(request_->most_new_tokens);
  const auto alternatives = most * static_cast<std::size_t>(answer.top_k);
  answer.token_ids.reserve(most);
  answer.logprobs.reserve(most);
  answer.top_ids.reserve(alternatives);
  answer.top_logprobs.reserve(alternatives);
  if (!stops_.empty()) {
    if (!context_.tokenizer) throw Error(ExitCode::internal, "stop strings were asked for without a tokenizer");
    decoder_.emplace(*context_.tokenizer, params.skip_special_tokens);
  }
  if (!scores_prompt()) return;
  const auto prompt = static_cast<std::size_t>(prompt_tokens_);
  scores.prompt_top_k = static_cast<std::int32_t>(*params.prompt_logprobs);
  const auto k = static_cast<std::size_t>(scores.prompt_top_k);
  scores.prompt_logprobs.assign(prompt, kNaN);
  scores.prompt_top_ids.assign(prompt * k, -1);
  scores.prompt_top_logprobs.assign(prompt * k, kNaN);
}

RowTask Answering::task(std::int64_t position, std::span<const std::int32_t> tokens) const {
  if (position + 1 < prompt_tokens_)
    return {.params = request_->params.get(),
            .context = {},
            .given = tokens[static_cast<std::size_t>(position) + 1],
            .top_k = scores.prompt_top_k};
  const std::int64_t made = static_cast<std::int64_t>(tokens.size()) - prompt_tokens_;
  return {.params = request_->params.get(),
          .context = {.eos_ids = context_.eos_ids,
                      .allowed_ids = context_.allowed_ids,
                      .tokens = tokens,
                      .prompt_tokens = prompt_tokens_,
                      .bad_words = request_->bad_words,
                      .draw = {.seed = static_cast<std::uint64_t>(request_->params->seed),
                               .prompt = request_->id_hash,
                               .sample = static_cast<std::uint32_t>(answer.sample_index),
                               .position = static_cast<std::uint32_t>(made)}},
          .choose = made < request_->most_new_tokens,  // none in a job that only scores prompts
          .top_k = answer.top_k};
}

void Answering::take_score(std::int64_t position, const RowOutcome& outcome) {
  const auto scored = static_cast<std::size_t>(position) + 1;
  scores.prompt_logprobs[scored] = outcome.token.logprob;
  for (std::size_t i = 0; i < outcome.top.size(); ++i) {
    const std::size_t at = scored * static_cast<std::size_t>(scores.prompt_top_k) + i;
    scores.prompt_top_ids[at] = outcome.top[i].id;
    scores.prompt_top_logprobs[at] = outcome.top[i].logprob;
  }
}

bool Answering::is_stop_id(std::int32_t id) const {
  const SamplingParams& params = *request_->params;
  if (!params.ignore_eos && std::ranges::find(context_.eos_ids, id) != context_.eos_ids.end()) return true;
  return std::ranges::find(params.stop_token_ids, static_cast<std::int64_t>(id)) != params.stop_token_ids.end();
}

// A string that is complete before min_new_tokens are out does not count.
bool Answering::meets_stop_string(std::int32_t id) {
  if (!decoder_) return false;
  const auto& match = stops_.push(decoder_->push(id));
  if (!match) return false;
  answer.text_bytes =
      static_cast<std::int64_t>(request_->params->include_stop_str_in_output ? match->end : match->begin);
  return true;
}

Answering::State Answering::take_token(const RowOutcome& outcome, double now) {
  if (answer.token_ids.empty()) answer.t_first_token = now;
  answer.token_ids.push_back(outcome.token.id);
  answer.logprobs.push_back(outcome.token.logprob);
  answer.cumulative_logprob += static_cast<double>(outcome.token.logprob);
  for (const TokenLogprob& entry : outcome.top) {
    answer.top_ids.push_back(entry.id);
    answer.top_logprobs.push_back(entry.logprob);
  }
  const auto made = static_cast<std::int64_t>(answer.token_ids.size());
  if (is_stop_id(outcome.token.id))
    answer.finish_reason = FinishReason::stop;
  else if (meets_stop_string(outcome.token.id))
    answer.finish_reason = FinishReason::stop_string;
  else if (made >= request_->most_new_tokens)
    answer.finish_reason = request_->at_limit;
  else
    return State::going_on;
  return State::finished;
}

Answering::State Answering::take(std::int64_t position, const RowOutcome& outcome, double now) {
  const bool last = position + 1 >= prompt_tokens_;
  if (!outcome.finite && error.empty())
    error = fmt::format(
        "non-finite logits at position {}: the weights hold NaN or infinity, or activations overflow "
        "(model.verify_weights: finite names the tensor)",
        position);
  if (!last) {
    if (error.empty()) take_score(position, outcome);
    return State::going_on;  // also after a fault: the prompt's rows may span several steps
  }
  const bool nothing_wanted = request_->most_new_tokens == 0;
  if (error.empty() && outcome.token.id < 0 && !nothing_wanted)
    error = fmt::format("no token may follow position {}: all that have a finite logit are banned", position);
  if (!error.empty()) return State::failed;
  State state = State::finished;
  answer.finish_reason = FinishReason::length;
  if (!nothing_wanted) state = take_token(outcome, now);
  if (state == State::finished) answer.t_finished = now;
  return state;
}

}  // namespace tpinfer
