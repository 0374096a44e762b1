#include "runtime/prompts.hpp"

#include <filesystem>
#include <limits>
#include <unordered_map>

#include "core/error.hpp"
#include "core/json.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 33;

PromptFormat format_of(const std::string& text, const std::string& name, PromptFormat asked) {
  if (asked != PromptFormat::automatic) return asked;
  const std::string extension = std::filesystem::path(name).extension().string();
  if (extension == ".jsonl" || extension == ".ndjson") return PromptFormat::jsonl;
  if (extension == ".txt") return PromptFormat::text;
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' ? PromptFormat::jsonl : PromptFormat::text;
}

std::vector<std::int32_t> read_token_ids(const Json& list, const std::string& place) {
  if (!list.is_array()) fail_input("{}: token_ids must be a list of numbers", place);
  std::vector<std::int32_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
      fail_input("{}: token_ids holds {}, which is no token id", place, id.dump());
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

// Fills `record` from one JSON object; throws Error(input) for what makes the row fail.
void read_record(const std::string& line, const PromptsJob& job, PromptRecord& record) {
  const Json object = parse_json(line, record.place);
  if (!object.is_object()) fail_input("{}: a JSON object is needed, found {}", record.place, object.type_name());
  if (const auto id = object.find(job.id_field); id != object.end()) {
    if (!id->is_string() && !id->is_number_integer())
      fail_input("{}: {} must be a string or a whole number, found {}", record.place, job.id_field, id->dump());
    record.id = id->is_string() ? id->get<std::string>() : id->dump();
  }
  if (const auto meta = object.find("meta"); meta != object.end()) record.meta = meta->dump();
  if (const auto params = object.find("params"); params != object.end())
    record.params = parse_params(*params, record.place);
  if (object.contains("messages"))
    fail_input(
        "{}: \"messages\" needs a chat template, which this version cannot render yet; give \"{}\" or \"token_ids\"",
        record.place, job.text_field);
  const auto text = object.find(job.text_field);
  const auto ids = object.find("token_ids");
  if ((text == object.end()) == (ids == object.end()))
    fail_input("{}: exactly one of \"{}\" and \"token_ids\" is needed", record.place, job.text_field);
  if (ids != object.end()) {
    record.token_ids = read_token_ids(*ids, record.place);
  } else {
    if (!text->is_string())
      fail_input("{}: {} must be a string, found {}", record.place, job.text_field, text->type_name());
    record.text = text->get<std::string>();
  }
}

PromptRecord read_line(std::string line, std::int64_t number, const std::string& name, PromptFormat format,
                       const PromptsJob& job) {
  PromptRecord record;
  record.id = std::to_string(number);
  record.place = name + ":" + record.id;
  try {
    if (!is_valid_utf8(line)) fail_input("{}: the line is not valid UTF-8", record.place);
    if (format == PromptFormat::jsonl)
      read_record(line, job, record);
    else
      record.text = std::move(line);
  } catch (const Error& e) {
    record.error = e.what();
  }
  return record;
}

void refuse_duplicate_ids(const std::vector<PromptRecord>& records) {
  std::unordered_map<std::string_view, const PromptRecord*> seen;
  for (const PromptRecord& record : records) {
    const auto [at, fresh] = seen.emplace(record.id, &record);
    if (!fresh)
      throw Error(ExitCode::input,
                  fmt::format("{}: the id \"{}\" stands at {} already", record.place, record.id, at->second->place),
                  "ids must be unique: they are what resuming and seeds go by");
  }
}

}  // namespace

std::vector<PromptRecord> parse_prompts(const std::string& text, const std::string& name, const PromptsJob& job) {
  const PromptFormat format = format_of(text, name, job.format);
  std::vector<PromptRecord> records;
  std::int64_t number = 0;
  std::int64_t kept = 0;
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (kept++ < job.select.offset) continue;
    if (job.select.limit && static_cast<std::int64_t>(records.size()) >= *job.select.limit) break;
    records.push_back(read_line(std::move(line), number, name, format, job));
  }
  if (records.empty())
    throw Error(
        ExitCode::input, fmt::format("{}: holds no prompts", name),
        kept > 0 ? "prompts.select leaves none of them" : "a text file has one prompt a line, JSONL one object a line");
  refuse_duplicate_ids(records);
  return records;
}

std::vector<PromptRecord> read_prompts(const PromptsJob& job) {
  if (job.files.size() != 1) throw Error(ExitCode::usage, "prompts.file must name one file");
  const std::string& file = job.files.front();
  return parse_prompts(read_text_file(file, kMostBytes, true), file, job);
}

}  // namespace tpinfer
