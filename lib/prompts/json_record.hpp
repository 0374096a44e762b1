#pragma once

#include "core/json.hpp"
#include "prompts/prompt_stream.hpp"

namespace tpinfer {

/// Fills `record`, whose place is there, from an object of a JSONL file: exactly one of the text field, "messages"
/// (with "tools", "documents", "chat_template", "chat_template_kwargs") and "token_ids"; id, "params" and "meta". A
/// null is as if it were not there. Error(input) for what makes this prompt fail.
void read_json_record(const Json& object, const RecordTerms& terms, PromptRecord& record);

/// The same from a line of an OpenAI batch: custom_id, url and the body of a chat completion or a completion. What of
/// the body cannot be done as asked is an Error(input) that names it.
void read_openai_record(const Json& object, const RecordTerms& terms, PromptRecord& record);

/// Whether the object looks like such a line.
bool is_openai_line(const Json& object);

/// The member, or null where it is missing or null.
const Json* member(const Json& object, const char* name);
/// The value as a message shows it, in ASCII.
std::string short_text(const Json& value);
/// Ids from a JSON list, or an Error(input) about `name`.
std::vector<std::int32_t> read_token_ids(const Json& list, const char* name, const std::string& place);
/// A string, or a whole number in digits.
std::string read_id(const Json& value, const std::string& name, const std::string& place);

}  // namespace tpinfer
