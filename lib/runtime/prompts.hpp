#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/job.hpp"

namespace tpinfer {

/// One record of a prompt file, before it is encoded.
struct PromptRecord {
  std::string id;     ///< of the id field, else the line number
  std::string place;  ///< FILE:LINE, for messages
  std::string text;
  std::optional<std::vector<std::int32_t>> token_ids;  ///< given instead of a text
  SamplingRequest params;
  std::string meta;   ///< JSON of "meta", or empty
  std::string error;  ///< why this record cannot be run; the row fails
};

/// Reads the job's prompt file: text (a prompt a line) or JSONL, as prompts.format says (auto: by the file's extension,
/// else by its first character). A bad line is a record with an error. Error(input): a missing or empty file, duplicate
/// ids.
std::vector<PromptRecord> read_prompts(const PromptsJob& job);

/// The same from a text already read; `name` is its file name for messages.
std::vector<PromptRecord> parse_prompts(const std::string& text, const std::string& name, const PromptsJob& job);

}  // namespace tpinfer
