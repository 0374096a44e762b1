#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/json.hpp"
#include "text/jinja/template.hpp"

namespace tpinfer {

/// One conversation. Absent tools and documents are none to the template, as in Hugging Face.
struct Conversation {
  const Json* messages = nullptr;  // a list of objects
  const Json* tools = nullptr;
  const Json* documents = nullptr;
  bool add_generation_prompt = true;
  const Json* variables = nullptr;  // an object: more variables; they win over special tokens
  /// Of the model's named templates; absent: tool_use where there are tools and a template for them, else default.
  std::optional<std::string> template_name = std::nullopt;
};

/// The chat template of a model, or of a job. Constant after it is made: any number of threads may render at once.
/// The text that it gives holds the special tokens already: it is encoded without adding any.
class ChatTemplate {
 public:
  /// The templates of a tokenizer's folder: chat_template in tokenizer_config.json (a text, or a list of named ones),
  /// overruled by the files chat_template.jinja and additional_chat_templates/NAME.jinja. With `file`, that template
  /// instead; the special tokens still come from the folder. Throws Error(input) when there is none, and
  /// jinja::TemplateError when the one for conversations without tools can not be compiled.
  static ChatTemplate load(const std::filesystem::path& folder,
                           const std::optional<std::filesystem::path>& file = std::nullopt);
  /// A template that knows no special tokens.
  static ChatTemplate from_file(const std::filesystem::path& file);
  /// True when load(folder) would find one.
  static bool exists(const std::filesystem::path& folder);

  /// Throws jinja::TemplateError; where the template refuses the conversation itself (raise_exception), with its own
  /// message alone. strftime_now takes its clock from SOURCE_DATE_EPOCH when that is set, in the time zone TZ.
  std::string render(const Conversation& conversation) const;

 private:
  using Entry = std::variant<jinja::Template, jinja::TemplateError>;
  static Entry compile(const std::string& source, const std::string& name);
  void add(const std::string& name, const std::string& source, const std::string& place);
  void read_config(const std::filesystem::path& folder, bool with_templates);
  void read_files(const std::filesystem::path& folder);
  void check_default(const std::filesystem::path& folder) const;
  const jinja::Template& choose(bool with_tools, const std::optional<std::string>& name) const;

  std::map<std::string, Entry> templates_;  // by name: default, tool_use ...
  std::vector<std::pair<std::string, Json>> special_tokens_;
};

/// What strftime_now gives now; Error(input) when SOURCE_DATE_EPOCH is no number of seconds.
std::string format_now(const std::string& format);

}  // namespace tpinfer
