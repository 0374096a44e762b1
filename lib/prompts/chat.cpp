#include "prompts/chat.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr const char* kAutomatic = "auto";
constexpr const char* kNone = "none";

// The models here read text alone: a template would print another part as if it were one.
void check_content(const Json& content, std::size_t number, const std::string& where) {
  if (!content.is_array()) return;
  for (const Json& part : content) {
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (type == part.end() || !type->is_string() || *type == "text") continue;
    fail_input("{}: messages[{}] holds a part of the type \"{}\", the model reads text alone", where, number,
               type->get<std::string>());
  }
}

void check_messages(const Json& messages, const std::string& where) {
  if (!messages.is_array()) fail_input("{}: messages must be a list, found {}", where, messages.type_name());
  if (messages.empty()) fail_input("{}: messages is an empty list", where);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    if (!message.is_object()) fail_input("{}: messages[{}] must be an object, found {}", where, i, message.type_name());
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string())
      fail_input("{}: messages[{}] needs a \"role\" that is a string", where, i);
    if (const auto content = message.find("content"); content != message.end()) check_content(*content, i, where);
  }
}

void check_list(const Json& value, const char* name, const std::string& where) {
  if (!value.is_null() && !value.is_array())
    fail_input("{}: {} must be a list, found {}", where, name, value.type_name());
}

}  // namespace

ChatPrompts::ChatPrompts(const PromptsJob& job, const std::filesystem::path& folder) : job_(job), folder_(folder) {
  if (job.chat_template != kAutomatic && job.chat_template != kNone)
    template_ = ChatTemplate::load(folder, std::filesystem::path(job.chat_template));
}

void ChatPrompts::load_model_template() const {
  if (job_.chat_template == kNone) {
    missing_ = "\"messages\" needs a chat template, and prompts.chat_template is none";
    return;
  }
  try {
    if (ChatTemplate::exists(folder_))
      template_ = ChatTemplate::load(folder_);
    else
      missing_ = fmt::format(
          "\"messages\" needs a chat template, and {} has none (name one with prompts.chat_template: FILE, or give the "
          "prompt as text)",
          folder_.string());
  } catch (const Error&) {
    broken_ = std::current_exception();
    missing_ = "the model's chat template cannot be used";
  }
}

const ChatTemplate* ChatPrompts::model_template() const {
  std::call_once(once_, [this] {
    if (!template_) load_model_template();
    tried_ = true;
  });
  return template_ ? &*template_ : nullptr;
}

std::string ChatPrompts::render(ChatRecord&& record, const std::string& where) const {
  check_messages(record.messages, where);
  check_list(record.tools, "tools", where);
  check_list(record.documents, "documents", where);
  if (!record.variables.is_null() && !record.variables.is_object())
    fail_input("{}: chat_template_kwargs must be an object, found {}", where, record.variables.type_name());
  if (job_.system && record.messages[0]["role"] != "system")
    record.messages.insert(record.messages.begin(), Json{{"role", "system"}, {"content", *job_.system}});
  const ChatTemplate* chosen = model_template();
  if (!chosen) fail_input("{}: {}", where, missing_);
  const Conversation conversation{.messages = &record.messages,
                                  .tools = &record.tools,
                                  .documents = &record.documents,
                                  .variables = &record.variables,
                                  .template_name = record.template_name};
  try {
    return chosen->render(conversation);
  } catch (const Error& e) {
    fail_input("{}: {}", where, e.what());
  }
}

void ChatPrompts::check() const {
  if (tried_ && broken_) std::rethrow_exception(broken_);
}

}  // namespace tpinfer
