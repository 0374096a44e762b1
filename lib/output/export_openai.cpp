#include "output/export_openai.hpp"

#include <charconv>
#include <cmath>
#include <ctime>

#include "core/error.hpp"
#include "core/json.hpp"

namespace tpinfer {

namespace {

constexpr double kImpossible = -9999;  ///< as that API has it

std::int64_t seconds_of(const std::string& iso) {
  std::tm time{};
  const char* end = ::strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  return end ? static_cast<std::int64_t>(::timegm(&time)) : 0;
}

/// The shortest number that is the same in single precision.
double shortest(float value) {
  if (!std::isfinite(value)) return kImpossible;
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double number = 0;
  std::from_chars(digits, end, number);
  return number;
}

std::string token_name(std::int32_t id) { return fmt::format("token_id:{}", id); }

Json token_json(std::int32_t id, float logprob) {
  return {{"token", token_name(id)}, {"logprob", shortest(logprob)}, {"bytes", nullptr}};
}

/// Calls visit(id, logprob) for the candidates stored for a token.
template <class Visit>
void for_each_top(const AnswerRow& answer, std::size_t token, Visit visit) {
  const auto k = static_cast<std::size_t>(answer.top_k);
  for (std::size_t i = token * k; i < (token + 1) * k; ++i)
    if (answer.top_ids[i] >= 0) visit(answer.top_ids[i], answer.top_logprobs[i]);
}

Json chat_logprobs(const AnswerRow& answer) {
  Json content = Json::array();
  for (std::size_t i = 0; i < answer.logprobs.size(); ++i) {
    Json token = token_json(answer.token_ids[i], answer.logprobs[i]);
    Json& top = token["top_logprobs"] = Json::array();
    for_each_top(answer, i, [&](std::int32_t id, float logprob) { top.push_back(token_json(id, logprob)); });
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}};
}

Json completion_logprobs(const AnswerRow& answer) {
  Json tokens = Json::array(), logprobs = Json::array(), all_top = Json::array();
  for (std::size_t i = 0; i < answer.logprobs.size(); ++i) {
    tokens.push_back(token_name(answer.token_ids[i]));
    logprobs.push_back(shortest(answer.logprobs[i]));
    Json top = Json::object();
    for_each_top(answer, i, [&](std::int32_t id, float logprob) { top[token_name(id)] = shortest(logprob); });
    all_top.push_back(std::move(top));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", answer.top_k > 0 ? std::move(all_top) : Json(nullptr)},
          {"text_offset", nullptr}};
}

const char* finish_word(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
    case FinishReason::stop_string: return "stop";
    case FinishReason::length:
    case FinishReason::context: return "length";
    case FinishReason::error: break;
  }
  return "error";
}

Json choice_json(const AnswerRow& answer, bool chat) {
  Json choice{{"index", answer.sample_index}};
  if (chat)
    choice["message"] = {{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}};
  else
    choice["text"] = answer.text;
  if (answer.logprobs.empty())
    choice["logprobs"] = nullptr;
  else
    choice["logprobs"] = chat ? chat_logprobs(answer) : completion_logprobs(answer);
  choice["finish_reason"] = finish_word(answer.finish_reason);
  return choice;
}

const char* error_code(PromptStatus status) {
  switch (status) {
    case PromptStatus::failed: return "prompt_failed";
    case PromptStatus::skipped: return "prompt_skipped";
    case PromptStatus::pending:
    case PromptStatus::done: break;
  }
  return "not_answered";
}

}  // namespace

std::string why_unanswered(const PromptRow& prompt) {
  if (!prompt.error.empty()) return prompt.error;
  switch (prompt.status) {
    case PromptStatus::failed: return "the prompt failed";
    case PromptStatus::skipped: return "the prompt was skipped";
    case PromptStatus::pending: return "the run ended before this prompt was answered";
    case PromptStatus::done: break;
  }
  return "no answer is stored";
}

OpenaiLines::OpenaiLines(const RunLabel& facts, bool chat)
    : facts_(facts), created_(seconds_of(facts.created)), chat_(chat) {}

std::string OpenaiLines::line(std::size_t index, const PromptRow& prompt, std::span<const AnswerRow> answers) const {
  const std::string name = fmt::format("{}-{}", facts_.run_id, index);
  Json line{{"id", "batch_req_" + name}, {"custom_id", prompt.id}, {"response", nullptr}, {"error", nullptr}};
  if (prompt.status != PromptStatus::done || answers.empty()) {
    line["error"] = {{"code", error_code(prompt.status)}, {"message", why_unanswered(prompt)}};
    return json_line(line);
  }
  Json choices = Json::array();
  std::size_t completion = 0;
  for (const AnswerRow& answer : answers) {
    choices.push_back(choice_json(answer, chat_));
    completion += answer.token_ids.size();
  }
  const std::size_t prompt_tokens = prompt.token_ids.size();
  Json body{{"id", (chat_ ? "chatcmpl-" : "cmpl-") + name},
            {"object", chat_ ? "chat.completion" : "text_completion"},
            {"created", created_},
            {"model", facts_.model_path},
            {"choices", std::move(choices)},
            {"usage",
             {{"prompt_tokens", prompt_tokens},
              {"completion_tokens", completion},
              {"total_tokens", prompt_tokens + completion}}}};
  line["response"] = {{"status_code", 200}, {"request_id", name}, {"body", std::move(body)}};
  return json_line(line);
}

}  // namespace tpinfer
