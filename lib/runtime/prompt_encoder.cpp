#include "runtime/prompt_encoder.hpp"

#include <algorithm>

#include "core/bytes.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

/// Thrown for a prompt that prompts.on_too_long: skip leaves out.
struct Skipped {
  std::string reason;
};

// bad_words as ids, each with and without a space in front.
std::vector<std::vector<std::int32_t>> bad_word_ids(const SamplingParams& params, const Tokenizer* tokenizer,
                                                    const std::string& place) {
  std::vector<std::vector<std::int32_t>> ids;
  if (!params.bad_words.empty() && !tokenizer)
    fail_input("{}: bad_words needs a tokenizer, which the model folder lacks", place);
  for (const std::string& word : params.bad_words) {
    for (const std::string& text : {word, " " + word}) {
      std::vector<std::int32_t> word_ids = tokenizer->encode(text, false);
      if (!word_ids.empty() && std::ranges::find(ids, word_ids) == ids.end()) ids.push_back(std::move(word_ids));
    }
  }
  return ids;
}

void check_bias(const SamplingParams& params, std::int64_t vocab, const std::string& place) {
  for (const auto& [id, bias] : params.logit_bias)
    if (id < 0 || id >= vocab)
      fail_input("{}: logit_bias names the token id {}, the vocabulary has {} ids", place, id, vocab);
}

// How many ids of `with` stand before `without`, which it holds in one piece.
std::optional<std::size_t> ids_before(const std::vector<std::int32_t>& with, const std::vector<std::int32_t>& without) {
  if (without.size() > with.size()) return std::nullopt;
  for (std::size_t at = 0; at <= with.size() - without.size(); ++at)
    if (std::equal(without.begin(), without.end(), with.begin() + static_cast<std::ptrdiff_t>(at))) return at;
  return std::nullopt;
}

bool begins_twice(const std::vector<std::int32_t>& ids, const Tokenizer& tokenizer) {
  const auto begin = tokenizer.bos_token_id();
  return begin && ids.size() > 1 && ids[0] == *begin && ids[1] == *begin;
}

void shorten(std::vector<std::int32_t>& ids, std::size_t keep, bool left) {
  if (left)
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(keep));
  else
    ids.resize(keep);
}

}  // namespace

PromptEncoder::PromptEncoder(const EncodingTerms& terms) : terms_(terms) {
  if (terms.spec)
    max_model_len_ =
        std::min(terms.job.engine.max_model_len.value_or(terms.spec->max_positions), terms.spec->max_positions);
  try {
    params_ = std::make_shared<const SamplingParams>(resolve_sampling({}, terms.job.sampling, terms.generation_config));
  } catch (const Error&) {
    params_.reset();  // the job's own fault is told elsewhere; each record would say the same
  }
}

EncodedPrompt PromptEncoder::encode(PromptRecord&& record) const {
  EncodedPrompt prompt;
  prompt.row.id = std::move(record.id);
  prompt.row.text = record.text;
  prompt.row.meta = std::move(record.meta);
  prompt.is_text = record.error.empty() && !record.is_chat && !record.token_ids;
  try {
    if (!record.error.empty()) throw Error(ExitCode::input, record.error);
    fill(record, prompt);
  } catch (const Error& e) {
    prompt.request.reset();
    prompt.row.status = PromptStatus::failed;
    prompt.row.error = e.what();
  } catch (const Skipped& skipped) {
    prompt.request.reset();
    prompt.row.status = PromptStatus::skipped;
    prompt.row.error = skipped.reason;
  }
  return prompt;
}

void PromptEncoder::fill(PromptRecord& record, EncodedPrompt& prompt) const {
  const bool encodable = record.token_ids || terms_.tokenizer;
  prompt.lacks_tokenizer = !encodable;
  Request& request =
      prompt.request.emplace(Request{.id_hash = hash_bytes(prompt.row.id), .token_ids = {}, .params = nullptr});
  if (encodable) request.token_ids = token_ids(record);
  if (prompt.is_text && terms_.tokenizer) prompt.begins_twice = begins_twice(request.token_ids, *terms_.tokenizer);
  prompt.row.token_ids = request.token_ids;
  request.params = params(record);
  if (terms_.spec) check_bias(*request.params, terms_.spec->vocab, record.place);
  request.bad_words = bad_word_ids(*request.params, terms_.tokenizer, record.place);
  if (!encodable || !terms_.spec) return;
  fit(record, prompt);
  set_limits(request);
}

std::vector<std::int32_t> PromptEncoder::token_ids(const PromptRecord& record) const {
  // a chat template writes the special tokens itself
  const bool add_special = terms_.job.prompts.add_special_tokens && !record.is_chat;
  std::vector<std::int32_t> ids =
      record.token_ids ? *record.token_ids : terms_.tokenizer->encode(record.text, add_special);
  for (const std::int32_t id : ids)
    if (terms_.spec && (id < 0 || id >= terms_.spec->vocab))
      fail_input("{}: the token id {} is outside the vocabulary of {} ids", record.place, id, terms_.spec->vocab);
  if (ids.empty())
    fail_input("{}: the prompt is empty and {}", record.place,
               record.token_ids || record.is_chat ? "there is nothing to start from"
               : add_special                      ? "the model has no begin token to start from"
                                                  : "prompts.add_special_tokens is false, so nothing is put before it");
  return ids;
}

std::shared_ptr<const SamplingParams> PromptEncoder::params(const PromptRecord& record) const {
  if (params_ && record.params == SamplingRequest{}) return params_;
  return std::make_shared<const SamplingParams>(
      resolve_sampling(record.params, terms_.job.sampling, terms_.generation_config, record.place));
}

// prompts.on_too_long: a prompt is too long when it leaves no room for one new token.
void PromptEncoder::fit(const PromptRecord& record, EncodedPrompt& prompt) const {
  Request& request = *prompt.request;
  const SamplingParams& params = *request.params;
  const std::int64_t least = params.max_new_tokens > 0 ? 1 : 0;
  const std::int64_t limit = std::min(max_model_len_, params.max_length.value_or(max_model_len_));
  const auto tokens = [&] { return static_cast<std::int64_t>(request.token_ids.size()); };
  if (tokens() + least <= limit) return;
  const TooLong policy = terms_.job.prompts.on_too_long;
  // the whole answer shall fit, but an answer without bounds must not eat the prompt
  const std::int64_t keep = limit - std::min(params.max_new_tokens, limit / 2);
  if ((policy == TooLong::truncate_left || policy == TooLong::truncate_right) && keep + least <= limit)
    return cut(record, static_cast<std::size_t>(keep), prompt);
  const std::string reason = limit < max_model_len_
                                 ? fmt::format("{}: the prompt has {} tokens, which leaves nothing of max_length {}",
                                               record.place, tokens(), limit)
                                 : fmt::format("{}: the prompt has {} tokens, the model takes {} with the answer",
                                               record.place, tokens(), limit);
  if (policy == TooLong::skip) throw Skipped{reason};
  throw Error(ExitCode::input, reason,
              limit < max_model_len_ ? "" : "engine.max_model_len, or max_position_embeddings of config.json");
}

// Special tokens that the tokenizer puts round a text stay where they are.
void PromptEncoder::cut(const PromptRecord& record, std::size_t keep, EncodedPrompt& prompt) const {
  Request& request = *prompt.request;
  const bool left = terms_.job.prompts.on_too_long == TooLong::truncate_left;
  std::vector<std::int32_t> before, inside = request.token_ids, after;
  if (!record.token_ids && !record.is_chat) {
    const std::vector<std::int32_t> plain = terms_.tokenizer->encode(record.text, false);
    const std::size_t added = inside.size() - std::min(inside.size(), plain.size());
    if (const auto at = ids_before(inside, plain); at && added < keep) {
      before.assign(inside.begin(), inside.begin() + static_cast<std::ptrdiff_t>(*at));
      after.assign(inside.begin() + static_cast<std::ptrdiff_t>(*at + plain.size()), inside.end());
      inside = plain;
      keep -= added;
    }
  }
  shorten(inside, keep, left);
  if (!record.token_ids) prompt.row.text = terms_.tokenizer->decode(inside, false);
  request.token_ids = std::move(before);
  request.token_ids.insert(request.token_ids.end(), inside.begin(), inside.end());
  request.token_ids.insert(request.token_ids.end(), after.begin(), after.end());
  prompt.row.token_ids = request.token_ids;
  prompt.is_cut = true;
}

// New tokens under all limits, and which limit it is.
void PromptEncoder::set_limits(Request& request) const {
  const auto prompt = static_cast<std::int64_t>(request.token_ids.size());
  request.most_new_tokens = request.params->max_new_tokens;
  if (request.params->max_length)
    request.most_new_tokens = std::min(request.most_new_tokens, *request.params->max_length - prompt);
  if (const std::int64_t room = max_model_len_ - prompt; room < request.most_new_tokens) {
    request.most_new_tokens = room;
    request.at_limit = FinishReason::context;
  }
}

}  // namespace tpinfer
