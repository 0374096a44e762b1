#include "text/chat_template.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>

#include "core/error.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefault = "default";
constexpr const char* kToolUse = "tool_use";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kFile = "chat_template.jinja";
constexpr const char* kMoreFiles = "additional_chat_templates";
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

// A special token is a text, or an object that describes an added token.
std::optional<Json> token_text(const Json& token) {
  const Json* text = &token;
  if (token.is_object()) {
    const auto content = token.find("content");
    if (content == token.end()) return std::nullopt;
    text = &*content;
  }
  if (!text->is_string() || text->get_ref<const std::string&>().empty()) return std::nullopt;
  return *text;
}

std::vector<std::pair<std::string, Json>> special_tokens_of(const Json& config) {
  std::vector<std::pair<std::string, Json>> tokens;
  if (!config.is_object()) return tokens;
  for (const char* name : kSpecialTokens)
    if (const auto token = config.find(name); token != config.end())
      if (auto text = token_text(*token)) tokens.emplace_back(name, std::move(*text));
  const auto more = config.find("additional_special_tokens");
  if (more == config.end() || !more->is_array() || more->empty()) return tokens;
  Json list = Json::array();
  for (const Json& token : *more)
    if (auto text = token_text(token)) list.push_back(std::move(*text));
  tokens.emplace_back("additional_special_tokens", std::move(list));
  return tokens;
}

// The files NAME.jinja of the folder for further templates, in the order of their names.
std::vector<fs::path> more_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / kMoreFiles, error))
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::time_t current_time() {
  const char* text = std::getenv("SOURCE_DATE_EPOCH");
  if (!text || !*text) return std::time(nullptr);
  std::time_t seconds = 0;
  const std::string_view digits(text);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seconds);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail_input("SOURCE_DATE_EPOCH is \"{}\", and must be a whole number of seconds since 1970", text);
  return seconds;
}

// Hugging Face drops the keys of a message that are null. Null: nothing to drop.
std::optional<Json> without_nulls(const Json& messages) {
  if (!messages.is_array()) return std::nullopt;
  const auto is_null = [](const Json& value) { return value.is_null(); };
  const auto has_null = [&](const Json& message) {
    return message.is_object() && std::any_of(message.begin(), message.end(), is_null);
  };
  if (std::none_of(messages.begin(), messages.end(), has_null)) return std::nullopt;
  Json cleaned = Json::array();
  for (const Json& message : messages) {
    if (!has_null(message)) {
      cleaned.push_back(message);
      continue;
    }
    Json kept = Json::object();
    for (const auto& [key, value] : message.items())
      if (!value.is_null()) kept[key] = value;
    cleaned.push_back(std::move(kept));
  }
  return cleaned;
}

}  // namespace

std::string format_now(const std::string& format) {
  // Python's clock here has no time zone, and fractions of a second are nothing that a prompt should depend on.
  std::string wanted;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '\0') fail_input("strftime_now: a format with a zero byte is not supported");
    if (format[i] != '%' || i + 1 == format.size()) {
      wanted.push_back(format[i]);
    } else if (const char kind = format[++i]; kind == 'f') {
      wanted += "000000";
    } else if (kind != 'z' && kind != 'Z') {
      wanted.push_back('%');
      wanted.push_back(kind);
    }
  }
  if (wanted.empty()) return wanted;
  const std::time_t seconds = current_time();
  std::tm time{};
  if (!::localtime_r(&seconds, &time)) fail_input("the time {} has no date", seconds);
  std::string out(wanted.size() * 64 + 256, '\0');
  wanted.push_back(' ');  // so that no text at all can be told from too small a place
  const std::size_t size = std::strftime(out.data(), out.size(), wanted.c_str(), &time);
  if (size == 0) fail_input("strftime_now: the format \"{}\" can not be carried out", format);
  out.resize(size - 1);
  return out;
}

ChatTemplate::Entry ChatTemplate::compile(const std::string& source, const std::string& name) {
  try {
    return jinja::Template(source, name);
  } catch (const jinja::TemplateError& error) {
    return error;
  }
}

void ChatTemplate::add(const std::string& name, const std::string& source, const std::string& place) {
  templates_.insert_or_assign(name, compile(source, place));
}

void ChatTemplate::read_config(const fs::path& folder, bool with_templates) {
  const fs::path path = folder / kConfig;
  if (fs::exists(path)) {
    const Json config = read_json_file(path.string());
    special_tokens_ = special_tokens_of(config);
    const auto found = config.is_object() ? config.find("chat_template") : config.end();
    if (with_templates && found != config.end() && !found->is_null()) {
      if (found->is_string()) {
        add(kDefault, found->get<std::string>(), fmt::format("{}: chat_template", path.string()));
      } else {
        if (!found->is_array()) fail_input("{}: chat_template must be a text or a list of named ones", path.string());
        for (const Json& entry : *found) {
          if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
              !entry.contains("template") || !entry["template"].is_string())
            fail_input("{}: each chat_template of a list needs the texts \"name\" and \"template\"", path.string());
          const auto name = entry["name"].get<std::string>();
          add(name, entry["template"].get<std::string>(), fmt::format("{}: chat_template \"{}\"", path.string(), name));
        }
      }
    }
  }
  // older folders keep them in a file of their own
  const fs::path map = folder / "special_tokens_map.json";
  if (!fs::exists(map)) return;
  for (auto& [name, value] : special_tokens_of(read_json_file(map.string()))) {
    const auto same = [&name = name](const auto& known) { return known.first == name; };
    if (std::none_of(special_tokens_.begin(), special_tokens_.end(), same))
      special_tokens_.emplace_back(name, std::move(value));
  }
}

void ChatTemplate::read_files(const fs::path& folder) {
  const fs::path file = folder / kFile;
  const auto more = more_files(folder);
  if (fs::exists(file) || !more.empty()) templates_.clear();
  if (fs::exists(file)) add(kDefault, read_text_file(file.string(), kMostBytes), file.string());
  for (const fs::path& path : more) add(path.stem().string(), read_text_file(path.string(), kMostBytes), path.string());
}

void ChatTemplate::check_default(const fs::path& folder) const {
  if (templates_.empty())
    throw Error(
        ExitCode::input,
        fmt::format("{}: no chat template, neither {} nor chat_template in {}", folder.string(), kFile, kConfig),
        "name one with prompts.chat_template: FILE, or give prompts as text");
  if (const auto found = templates_.find(kDefault); found != templates_.end())
    if (const auto* error = std::get_if<jinja::TemplateError>(&found->second)) throw *error;
}

ChatTemplate ChatTemplate::load(const fs::path& folder, const std::optional<fs::path>& file) {
  ChatTemplate chat;
  chat.read_config(folder, !file);
  if (file) {
    chat.add(kDefault, read_text_file(file->string(), kMostBytes), file->string());
  } else {
    chat.read_files(folder);
  }
  chat.check_default(folder);
  return chat;
}

ChatTemplate ChatTemplate::from_file(const fs::path& file) {
  ChatTemplate chat;
  chat.add(kDefault, read_text_file(file.string(), kMostBytes), file.string());
  chat.check_default(file);
  return chat;
}

bool ChatTemplate::exists(const fs::path& folder) {
  if (fs::exists(folder / kFile) || !more_files(folder).empty()) return true;
  const fs::path path = folder / kConfig;
  if (!fs::exists(path)) return false;
  const Json config = read_json_file(path.string());
  const auto found = config.is_object() ? config.find("chat_template") : config.end();
  return found != config.end() && !found->is_null();
}

const jinja::Template& ChatTemplate::choose(bool with_tools, const std::optional<std::string>& name) const {
  auto found = name ? templates_.find(*name) : with_tools ? templates_.find(kToolUse) : templates_.end();
  if (found == templates_.end() && !name) found = templates_.find(kDefault);
  if (found == templates_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, entry] : templates_) names.push_back(known);
    fail_input("of the chat templates {} none is named \"{}\"", fmt::join(names, ", "), name.value_or(kDefault));
  }
  if (const auto* error = std::get_if<jinja::TemplateError>(&found->second)) throw *error;
  return std::get<jinja::Template>(found->second);
}

std::string ChatTemplate::render(const Conversation& conversation) const {
  const Json none;
  const Json add_prompt = conversation.add_generation_prompt;
  const auto or_none = [&none](const Json* value) { return value ? value : &none; };
  const auto cleaned = conversation.messages ? without_nulls(*conversation.messages) : std::nullopt;
  jinja::Variables variables;
  for (const auto& [name, value] : special_tokens_) variables.emplace_back(name, &value);
  if (conversation.messages) variables.emplace_back("messages", cleaned ? &*cleaned : conversation.messages);
  variables.emplace_back("tools", or_none(conversation.tools));
  variables.emplace_back("documents", or_none(conversation.documents));
  variables.emplace_back("add_generation_prompt", &add_prompt);
  if (conversation.variables && conversation.variables->is_object())
    for (const auto& item : conversation.variables->get_ref<const Json::object_t&>())
      variables.emplace_back(item.first, &item.second);
  const bool with_tools = conversation.tools && !conversation.tools->is_null();
  return choose(with_tools, conversation.template_name).render(variables, format_now);
}

}  // namespace tpinfer
