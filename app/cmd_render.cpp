#include "app/cmd_render.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "app/json_lines.hpp"
#include "core/error.hpp"
#include "text/chat_template.hpp"

namespace tpinfer {
namespace {

ChatTemplate load(const RenderOptions& options) {
  if (!options.folder) return ChatTemplate::from_file(*options.template_file);
  const std::optional<std::filesystem::path> file = options.template_file;
  return ChatTemplate::load(*options.folder, file);
}

// The record is the context: whatever else it holds is a variable of the template.
std::string render(const ChatTemplate& chat, Json record, const std::string& where) {
  if (!record.is_object()) fail_input("{}: a record must be an object, not {}", where, record.type_name());
  Json messages;
  Conversation conversation;
  if (const auto found = record.find("messages"); found != record.end()) {
    messages = std::move(*found);
    record.erase(found);
    conversation.messages = &messages;
  }
  const auto tools = record.find("tools");
  if (tools != record.end()) conversation.tools = &*tools;
  conversation.variables = &record;
  return chat.render(conversation);
}

}  // namespace

int run_render(const RenderOptions& options) {
  std::optional<ChatTemplate> chat;
  std::string fault;  // of the template: every record fails with it
  try {
    chat = load(options);
  } catch (const jinja::TemplateError& error) {
    fault = error.what();
    fmt::print(stderr, "tpinfer: error: {}\n", fault);
  }
  bool failed = false;
  for_each_line(options.jsonl, [&](const std::string& line, const std::string& where) {
    Json answer;
    if (!chat) {
      answer["error"] = fault;
    } else {
      try {
        answer["text"] = render(*chat, parse_json(line, where), where);
      } catch (const Error& error) {
        answer["error"] = error.what();
        failed = true;
      }
    }
    write_json_line(answer);
  });
  flush_output();
  if (!chat) return static_cast<int>(ExitCode::input);
  return static_cast<int>(failed ? ExitCode::prompts_failed : ExitCode::ok);
}

}  // namespace tpinfer
