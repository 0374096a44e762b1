#include "output/export.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/json.hpp"
#include "output/export_openai.hpp"
#include "output/part_file.hpp"
#include "output/result_names.hpp"

namespace tpinfer {

namespace {

using Write = std::function<void(std::string_view)>;
using Answers = std::vector<AnswerRow>;

Json error_of(const PromptRow& prompt, bool answered) {
  if (prompt.status == PromptStatus::done && answered) return nullptr;
  return why_unanswered(prompt);
}

Json meta_of(const PromptRow& prompt) {
  if (prompt.meta.empty()) return nullptr;
  Json meta = Json::parse(prompt.meta, nullptr, false);
  return meta.is_discarded() ? Json(prompt.meta) : meta;
}

/// `answer`: null for a prompt without one.
std::string jsonl_row(const PromptRow& prompt, const AnswerRow* answer) {
  Json row{{"id", prompt.id}};
  row["sample_index"] = answer ? Json(answer->sample_index) : Json(nullptr);
  row["text"] = answer ? Json(answer->text) : Json(nullptr);
  row["token_ids"] = answer ? Json(answer->token_ids) : Json(nullptr);
  row["finish_reason"] = answer ? Json(name_of(answer->finish_reason)) : Json(nullptr);
  row["cumulative_logprob"] = answer ? Json(answer->cumulative_logprob) : Json(nullptr);
  row["error"] = error_of(prompt, answer != nullptr);
  row["meta"] = meta_of(prompt);
  return json_line(row);
}

constexpr std::string_view kCsvHead = "id,sample_index,text,token_ids,finish_reason,cumulative_logprob,error,meta\n";

/// As RFC 4180 has it: quotes around a field that needs them, doubled inside.
std::string csv_field(std::string_view text) {
  const bool edge_blank = !text.empty() && (text.front() == ' ' || text.back() == ' ');
  if (!edge_blank && text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + "\"";
}

std::string csv_row(const PromptRow& prompt, const AnswerRow* answer) {
  std::string ids, number;
  if (answer) ids = fmt::format("[{}]", fmt::join(answer->token_ids, ", "));
  if (answer && std::isfinite(answer->cumulative_logprob)) number = fmt::format("{}", answer->cumulative_logprob);
  const Json error = error_of(prompt, answer != nullptr);
  return fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(prompt.id),
                     answer ? std::to_string(answer->sample_index) : "", csv_field(answer ? answer->text : ""),
                     csv_field(ids), answer ? name_of(answer->finish_reason) : "", number,
                     csv_field(error.is_null() ? "" : error.get<std::string>()), csv_field(prompt.meta));
}

/// One line: the backslash and all that some reader takes for the end of a line are escaped.
std::string text_row(const PromptRow&, const AnswerRow* answer) {
  static constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {{"\\", "\\\\"},
                                                                               {"\n", "\\n"},
                                                                               {"\r", "\\r"},
                                                                               {"\v", "\\v"},
                                                                               {"\f", "\\f"},
                                                                               {"\x1c", "\\x1c"},
                                                                               {"\x1d", "\\x1d"},
                                                                               {"\x1e", "\\x1e"},
                                                                               {"\xC2\x85", "\\u0085"},
                                                                               {"\xE2\x80\xA8", "\\u2028"},
                                                                               {"\xE2\x80\xA9", "\\u2029"}};
  std::string line = answer ? answer->text : std::string();
  for (const auto& [bytes, escape] : kEscapes)
    for (std::size_t at = line.find(bytes); at != std::string::npos; at = line.find(bytes, at + escape.size()))
      line.replace(at, bytes.size(), escape);
  return line + "\n";
}

template <class Row>
void write_rows(RowSource& rows, Row row, const Write& write) {
  PromptRow prompt;
  for (Answers answers; rows.next(prompt, answers);) {
    if (answers.empty()) write(row(prompt, nullptr));
    for (const AnswerRow& answer : answers) write(row(prompt, &answer));
  }
}

}  // namespace

void export_rows(RowSource& rows, const ExportOptions& options, const Write& write) {
  switch (options.format) {
    case ExportFormat::jsonl: return write_rows(rows, jsonl_row, write);
    case ExportFormat::text: return write_rows(rows, text_row, write);
    case ExportFormat::csv: write(kCsvHead); return write_rows(rows, csv_row, write);
    case ExportFormat::openai: break;
  }
  const OpenaiLines lines(rows.facts(), options.chat);
  PromptRow prompt;
  Answers answers;
  for (std::size_t index = 0; rows.next(prompt, answers); ++index) write(lines.line(index, prompt, answers));
}

void export_to_file(RowSource& rows, const ExportOptions& options, const std::filesystem::path& file,
                    const char* option) {
  constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
  PartFile part(file, option);
  std::string buffer;
  export_rows(rows, options, [&](std::string_view lines) {
    buffer += lines;
    if (buffer.size() < kBufferBytes) return;
    part.write(buffer);
    buffer.clear();
  });
  part.write(buffer);
  part.commit();
}

}  // namespace tpinfer
