#include "prompts/line_prompts.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "prompts/csv.hpp"
#include "prompts/hdf5_prompts.hpp"
#include "prompts/json_record.hpp"
#include "text/utf8.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kPeek = 4096;  // bytes that a format is told by
constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

void drop_carriage_return(std::string& line) {
  if (line.ends_with('\r')) line.pop_back();
}

std::string too_long_fault() { return fmt::format("the record is longer than {} bytes", LineReader::kMostLine); }

void check_utf8(std::string_view text, const std::string& place) {
  if (!is_valid_utf8(text)) fail_input("{}: the record is not valid UTF-8", place);
}

// The extension in small letters, without that of a packed file.
std::string extension_of(const std::string& path) {
  std::filesystem::path name(path);
  if (name.extension() == ".gz") name = name.stem();
  std::string extension = name.extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  return extension;
}

// Objects a line: those of a batch when the first one says so.
PromptFormat kind_of_objects(LineReader& reader) {
  std::string_view ahead;
  std::size_t end = std::string_view::npos;
  for (std::size_t bytes = kPeek; bytes <= LineReader::kMostLine; bytes *= 2) {
    ahead = reader.peek(bytes);
    ahead.remove_prefix(std::min(ahead.find_first_not_of(" \t\r\n"), ahead.size()));
    end = ahead.find('\n');
    if (end != std::string_view::npos || ahead.size() + kPeek < bytes) break;
  }
  try {
    return is_openai_line(parse_json(ahead.substr(0, end), {})) ? PromptFormat::openai : PromptFormat::jsonl;
  } catch (const Error&) {
    return PromptFormat::jsonl;  // a bad line: its row tells
  }
}

PromptFormat format_of(const std::string& path, LineReader& reader) {
  const std::string extension = extension_of(path);
  const std::string_view ahead = reader.peek(kPeek).substr(0, kPeek);
  if (ahead.starts_with(kHdf5Signature) || extension == ".h5" || extension == ".hdf5") return PromptFormat::hdf5;
  if (extension == ".csv") return PromptFormat::csv;
  if (extension == ".txt") return PromptFormat::text;
  const auto first = ahead.find_first_not_of(" \t\r\n");
  const char begin = first == std::string_view::npos ? '\0' : ahead[first];
  const bool json = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
  if (json && begin == '[')
    throw Error(ExitCode::input, fmt::format("{}: begins with a JSON list", source_name(path)),
                "write one object a line (JSONL)");
  if (json || begin == '{') return kind_of_objects(reader);
  if (ahead.find('\0') != std::string_view::npos)
    throw Error(ExitCode::input, fmt::format("{}: holds binary data", source_name(path)),
                "give text, JSONL, CSV or HDF5, and name it in prompts.format");
  return PromptFormat::text;
}

}  // namespace

bool may_be_hdf5(const std::string& path, const PromptsJob& job) {
  if (job.format != PromptFormat::automatic) return job.format == PromptFormat::hdf5;
  const std::string extension = extension_of(path);
  if (extension == ".h5" || extension == ".hdf5") return true;
  std::error_code none;
  if (path == "-" || !std::filesystem::is_regular_file(path, none)) return false;
  char first[kHdf5Signature.size()] = {};
  std::ifstream(path, std::ios::binary).read(first, sizeof first);
  return std::string_view(first, sizeof first) == kHdf5Signature;
}

std::shared_ptr<PromptFile> open_prompt_file(const std::string& path, const PromptsJob& job,
                                             const StopReading& stopped) {
  const std::string name = source_name(path);
  LineReader reader(path, stopped);
  const PromptFormat format = job.format == PromptFormat::automatic ? format_of(path, reader) : job.format;
  if (format == PromptFormat::hdf5) {
    if (path == "-" || reader.is_packed())
      throw Error(ExitCode::input, fmt::format("{}: HDF5 is read from a plain file alone", name),
                  "unpack it, or give its path");
    return std::make_shared<Hdf5Prompts>(path, job);
  }
  if (format == PromptFormat::csv) return std::make_shared<CsvPrompts>(name, std::move(reader), job);
  return std::make_shared<LinePrompts>(name, std::move(reader), format);
}

bool LinePrompts::next(RawPrompt& raw) {
  raw = {};
  while (reader_.next(raw.text)) {
    drop_carriage_return(raw.text);
    if (is_blank(raw.text)) continue;
    raw.number = reader_.number();
    if (reader_.was_too_long()) {
      raw.fault = too_long_fault();
      raw.text.clear();
    }
    return true;
  }
  return false;
}

void LinePrompts::read(RawPrompt&& raw, const RecordTerms& terms, PromptRecord& record) const {
  check_utf8(raw.text, record.place);
  if (format_ == PromptFormat::text)
    record.text = std::move(raw.text);
  else if (format_ == PromptFormat::openai)
    read_openai_record(parse_json(raw.text, record.place), terms, record);
  else
    read_json_record(parse_json(raw.text, record.place), terms, record);
}

CsvPrompts::CsvPrompts(const std::string& name, LineReader reader, const PromptsJob& job)
    : PromptFile(name), reader_(std::move(reader)) {
  RawPrompt header;
  if (!next_record(header)) return;
  const std::string place = fmt::format("{}:{}", name, header.number);
  if (!header.fault.empty()) fail_input("{}: {}", place, header.fault);
  check_utf8(header.text, place);
  header_ = split_csv(header.text, place);
  for (auto column = header_.begin(); column != header_.end(); ++column)
    if (std::find(header_.begin(), column, *column) != column)
      fail_input("{}: the header names the column \"{}\" twice", place, *column);
  const auto text = std::ranges::find(header_, job.text_field);
  if (text == header_.end()) {
    const bool other = header_.size() == 1 && header_[0].find_first_of(";\t") != std::string::npos;
    throw Error(ExitCode::input, fmt::format("{}: the header has no column \"{}\"", place, job.text_field),
                other ? "columns are separated by commas" : "see prompts.text_field");
  }
  text_column_ = static_cast<std::size_t>(text - header_.begin());
}

bool CsvPrompts::next_record(RawPrompt& raw) {
  raw = {};
  std::string line;
  while (reader_.next(line)) {
    if (is_blank(line)) continue;
    raw.number = reader_.number();
    CsvScanner scanner;
    bool too_long = reader_.was_too_long();
    bool open = scanner.is_open_after(line);
    raw.text = std::move(line);
    while (open && reader_.next(line)) {
      open = scanner.is_open_after(line);
      too_long = too_long || reader_.was_too_long() || raw.text.size() + line.size() > LineReader::kMostLine;
      if (too_long) raw.text.clear();
      raw.text += '\n';
      raw.text += line;
    }
    drop_carriage_return(raw.text);
    if (too_long) raw.fault = too_long_fault();
    return true;
  }
  return false;
}

bool CsvPrompts::next(RawPrompt& raw) { return !header_.empty() && next_record(raw); }

void CsvPrompts::read(RawPrompt&& raw, const RecordTerms& terms, PromptRecord& record) const {
  check_utf8(raw.text, record.place);
  std::vector<std::string> fields = split_csv(raw.text, record.place);
  if (fields.size() != header_.size())
    fail_input("{}: the record has {} fields, the header names {}", record.place, fields.size(), header_.size());
  Json meta = Json::object();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i == text_column_)
      record.text = std::move(fields[i]);
    else if (header_[i] != terms.job.id_field)
      meta[header_[i]] = std::move(fields[i]);
    else if (!fields[i].empty())
      record.id = std::move(fields[i]);
  }
  if (!meta.empty()) record.meta = meta.dump();
}

}  // namespace tpinfer
