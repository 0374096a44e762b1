#pragma once

#include "prompts/byte_source.hpp"
#include "prompts/prompt_stream.hpp"

namespace tpinfer {

/// A file with a prompt a line: text, JSONL or the lines of an OpenAI batch.
class LinePrompts final : public PromptFile {
 public:
  LinePrompts(const std::string& name, LineReader reader, PromptFormat format)
      : PromptFile(name), reader_(std::move(reader)), format_(format) {}
  bool next(RawPrompt& raw) override;
  void read(RawPrompt&& raw, const RecordTerms& terms, PromptRecord& record) const override;

 private:
  LineReader reader_;
  PromptFormat format_;
};

/// A CSV file (RFC 4180): a header, then a prompt a record, which may go over several lines. Columns besides the id and
/// the text are the record's meta, in the order of the header.
class CsvPrompts final : public PromptFile {
 public:
  /// Error(input) for a header that is missing, names a column twice or lacks the text's.
  CsvPrompts(const std::string& name, LineReader reader, const PromptsJob& job);
  bool next(RawPrompt& raw) override;
  void read(RawPrompt&& raw, const RecordTerms& terms, PromptRecord& record) const override;

 private:
  bool next_record(RawPrompt& raw);

  LineReader reader_;
  std::vector<std::string> header_;
  std::size_t text_column_ = 0;
};

}  // namespace tpinfer
