#include "prompts/json_record.hpp"

#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text_distance.hpp"
#include "job/aliases.hpp"
#include "job/resolved.hpp"

namespace tpinfer {
namespace {

// Names that others have for "params": a record that uses one means it.
constexpr std::string_view kOtherParams[] = {"sampling_params", "sampling", "parameters", "generation_config"};

bool is_sampling_key(std::string_view key) {
  static const std::set<std::string, std::less<>> kKeys = [] {
    std::set<std::string, std::less<>> keys;
    const Json all = sampling_json(SamplingParams{});
    for (const auto& [name, value] : all.items()) keys.insert(name);
    return keys;
  }();
  return kKeys.contains(canonical_sampling_key(key));
}

// A parameter beside "params" would be left out without a word.
void refuse_stray_params(const Json& object, const RecordTerms& terms, const std::string& place) {
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    if (key == terms.job.id_field || key == terms.job.text_field) continue;
    if (is_sampling_key(key))
      fail_input("{}: {} stands beside \"params\" (put it into \"params\": {{...}}, or into \"meta\")", place, key);
    for (const std::string_view name : kOtherParams)
      if (key == name) fail_input("{}: unknown field {} (sampling keys of a record stand in \"params\")", place, key);
  }
}

// " (did you mean ...?)" for a record without anything to answer.
std::string misspelt(const Json& object, const std::string& text_field) {
  const std::vector<std::string> fields{text_field, "messages", "token_ids"};
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>())
    if (const std::string near = nearest_word(key, fields); !near.empty() && near != key)
      return fmt::format(" ({} is unknown, did you mean {}?)", key, near);
  return {};
}

Json copy_of(const Json* value) { return value ? *value : Json(); }

ChatRecord read_chat(const Json& object, const std::string& place) {
  ChatRecord chat{.messages = object["messages"],
                  .tools = copy_of(member(object, "tools")),
                  .documents = copy_of(member(object, "documents")),
                  .variables = copy_of(member(object, "chat_template_kwargs")),
                  .template_name = {}};
  if (const Json* name = member(object, "chat_template")) {
    if (!name->is_string()) fail_input("{}: chat_template must be the name of one of the model's templates", place);
    chat.template_name = name->get<std::string>();
  }
  return chat;
}

}  // namespace

const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string short_text(const Json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
}

std::string read_id(const Json& value, const std::string& name, const std::string& place) {
  if (!value.is_string() && !value.is_number_integer())
    fail_input("{}: {} must be a string or a whole number, found {}", place, name, short_text(value));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::int32_t> read_token_ids(const Json& list, const char* name, const std::string& place) {
  if (!list.is_array()) fail_input("{}: {} must be a list of numbers", place, name);
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
      fail_input("{}: {} holds {}, which is no token id", place, name, short_text(id));
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

void read_json_record(const Json& object, const RecordTerms& terms, PromptRecord& record) {
  const PromptsJob& job = terms.job;
  if (!object.is_object()) fail_input("{}: a JSON object is needed, found {}", record.place, object.type_name());
  if (const Json* id = member(object, job.id_field.c_str())) record.id = read_id(*id, job.id_field, record.place);
  if (const Json* meta = member(object, "meta")) record.meta = meta->dump();
  if (const Json* params = member(object, "params")) record.params = parse_params(*params, record.place);
  refuse_stray_params(object, terms, record.place);
  const Json* text = member(object, job.text_field.c_str());
  const Json* ids = member(object, "token_ids");
  const Json* messages = member(object, "messages");
  const int given = (text ? 1 : 0) + (ids ? 1 : 0) + (messages ? 1 : 0);
  if (given != 1)
    fail_input("{}: exactly one of \"{}\", \"messages\" and \"token_ids\" is needed{}", record.place, job.text_field,
               given == 0 ? misspelt(object, job.text_field) : "");
  if (ids) {
    record.token_ids = read_token_ids(*ids, "token_ids", record.place);
  } else if (messages) {
    record.text = terms.chat.render(read_chat(object, record.place), record.place);
    record.is_chat = true;
  } else {
    if (!text->is_string())
      fail_input("{}: {} must be a string, found {}", record.place, job.text_field, text->type_name());
    record.text = text->get<std::string>();
  }
}

}  // namespace tpinfer
