#include <algorithm>
#include <span>
#include <string_view>

#include "core/error.hpp"
#include "job/aliases.hpp"
#include "job/resolved.hpp"
#include "prompts/json_record.hpp"

namespace tpinfer {
namespace {

// Fields of a body that say nothing about the answer.
constexpr std::string_view kIgnored[] = {"model",        "user",           "metadata",          "store",
                                         "service_tier", "stream_options", "safety_identifier", "prompt_cache_key"};

bool is_one_of(std::string_view name, std::span<const std::string_view> list) {
  return std::ranges::find(list, name) != list.end();
}

std::string_view our_name(std::string_view key) {
  if (key == "max_completion_tokens") return "max_new_tokens";
  if (key == "min_tokens") return "min_new_tokens";
  return canonical_sampling_key(key);
}

bool is_sampling_key(std::string_view name) {
  static const Json kKeys = sampling_json(SamplingParams{});
  return kKeys.contains(std::string(name));
}

/// The body of one request.
class Body {
 public:
  Body(const Json& body, bool chat, const std::string& place) : body_(body), chat_(chat), place_(place) {}

  /// Its sampling keys under our names; Error for a field that is not supported.
  Json params() {
    for (const auto& [key, value] : body_.get_ref<const Json::object_t&>())
      if (!value.is_null()) take(key, value);
    take_logprobs();
    return std::move(params_);
  }

 private:
  [[noreturn]] void refuse(std::string_view key, const Json& value) const {
    fail_input("{}: {} is not supported (found {})", place_, key, short_text(value));
  }

  void take(const std::string& key, const Json& value) {
    if (is_one_of(key, kIgnored) || key == "logprobs" || key == "top_logprobs") return;
    static constexpr std::string_view kChat[] = {"messages", "tools", "documents", "chat_template_kwargs",
                                                 "add_generation_prompt"};
    if (chat_ ? is_one_of(key, kChat) : key == "prompt") return;
    if (const std::string name(our_name(key)); is_sampling_key(name)) return put(key, name, value);
    if (!asks_for_nothing(key, value)) refuse(key, value);
  }

  // A field that is not supported, with a value that changes nothing.
  bool asks_for_nothing(std::string_view key, const Json& value) const {
    if (key == "stream" || key == "echo" || key == "continue_final_message") return value == Json(false);
    if (key == "best_of") return value == Json(1) || (body_.contains("n") && value == body_["n"]);
    if (key == "suffix") return value == Json("");
    if (key == "response_format") return value == Json{{"type", "text"}};
    if (key == "modalities") return value == Json::array({"text"});
    return key == "parallel_tool_calls";
  }

  void put(const std::string& key, const std::string& name, const Json& value) {
    if (params_.contains(name) && params_[name] != value)
      fail_input("{}: {} is given twice, by two names with two values", place_, key);
    params_[name] = name == "stop" && value.is_string() ? Json::array({value}) : value;
  }

  // A completion gives the number of alternatives; a chat completion true, and the number as top_logprobs.
  void take_logprobs() {
    const Json* logprobs = member(body_, "logprobs");
    const Json* top = member(body_, "top_logprobs");
    if (!chat_ || (logprobs && !logprobs->is_boolean())) {
      if (top) refuse("top_logprobs", *top);
      if (logprobs) params_["logprobs"] = *logprobs;
      return;
    }
    const bool wanted = logprobs && logprobs->get<bool>();
    if (top && !wanted) fail_input("{}: top_logprobs needs logprobs: true", place_);
    if (wanted) params_["logprobs"] = top ? *top : Json(0);
  }

  const Json& body_;
  bool chat_;
  const std::string& place_;
  Json params_ = Json::object();
};

// Parts of text put together, as servers do for templates that take a text; other parts are left for the check.
void join_text_parts(Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array() || content->empty()) return;
  std::string joined;
  for (const Json& part : *content) {
    const bool is_text = part.is_object() && part.contains("type") && part["type"] == "text" && part.contains("text");
    if (!is_text || !part["text"].is_string()) return;
    if (&part != &content->front()) joined += '\n';
    joined += part["text"].get_ref<const std::string&>();
  }
  *content = std::move(joined);
}

// Templates want the arguments of a call as an object; the interface has their JSON as a text.
void open_arguments(Json& message, const std::string& place) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    *arguments = parse_json(arguments->get<std::string>(), place + ": the arguments of a tool call");
  }
}

ChatRecord read_chat(const Json& body, const std::string& place) {
  const Json* messages = member(body, "messages");
  if (!messages) fail_input("{}: the body has no messages", place);
  ChatRecord chat{.messages = *messages, .tools = {}, .documents = {}, .variables = {}, .template_name = {}};
  if (const Json* tools = member(body, "tools")) chat.tools = *tools;
  if (const Json* documents = member(body, "documents")) chat.documents = *documents;
  if (const Json* variables = member(body, "chat_template_kwargs")) chat.variables = *variables;
  if (const Json* prompt = member(body, "add_generation_prompt")) {
    if (chat.variables.is_null()) chat.variables = Json::object();
    if (chat.variables.is_object()) chat.variables["add_generation_prompt"] = *prompt;
  }
  if (!chat.messages.is_array()) return chat;
  for (Json& message : chat.messages) {
    if (!message.is_object()) continue;
    join_text_parts(message);
    open_arguments(message, place);
  }
  return chat;
}

// A text, ids, or a list of one text.
void read_completion(const Json& body, PromptRecord& record) {
  const Json* prompt = member(body, "prompt");
  if (!prompt) fail_input("{}: the body has no prompt", record.place);
  if (prompt->is_array() && prompt->size() == 1 && !prompt->front().is_number()) prompt = &prompt->front();
  if (prompt->is_string()) {
    record.text = prompt->get<std::string>();
  } else if (prompt->is_array() && !prompt->empty() && prompt->front().is_number()) {
    record.token_ids = read_token_ids(*prompt, "prompt", record.place);
  } else if (prompt->is_array() && prompt->size() > 1) {
    fail_input("{}: prompt holds {} prompts, a request takes one (write a line for each)", record.place,
               prompt->size());
  } else {
    fail_input("{}: prompt must be a string or a list of token ids", record.place);
  }
}

bool is_chat_request(const Json& object, const Json& body, const std::string& place) {
  const Json* url = member(object, "url");
  if (!url) return body.contains("messages");
  const std::string path = url->is_string() ? url->get<std::string>() : short_text(*url);
  if (path.ends_with("/chat/completions")) return true;
  if (path.ends_with("/completions")) return false;
  fail_input("{}: url {} is not supported (use /v1/chat/completions or /v1/completions)", place, path);
}

}  // namespace

bool is_openai_line(const Json& object) {
  const auto has = [&](const char* name) { return object.contains(name); };
  return object.is_object() && has("body") && (has("custom_id") || has("url"));
}

void read_openai_record(const Json& object, const RecordTerms& terms, PromptRecord& record) {
  const std::string& place = record.place;
  if (!object.is_object()) fail_input("{}: a JSON object is needed, found {}", place, object.type_name());
  const std::string id_field = terms.job.id_field == PromptsJob{}.id_field ? "custom_id" : terms.job.id_field;
  if (const Json* id = member(object, id_field.c_str())) record.id = read_id(*id, id_field, place);
  if (const Json* method = member(object, "method"); method && *method != "POST")
    fail_input("{}: method must be POST, found {}", place, short_text(*method));
  const Json* body = member(object, "body");
  if (!body || !body->is_object()) fail_input("{}: a request needs a \"body\" that is an object", place);
  if (const Json* meta = member(*body, "metadata")) record.meta = meta->dump();
  const bool chat = is_chat_request(object, *body, place);
  record.params = parse_params(Body(*body, chat, place).params(), place);
  if (!chat) return read_completion(*body, record);
  record.text = terms.chat.render(read_chat(*body, place), place);
  record.is_chat = true;
}

}  // namespace tpinfer
