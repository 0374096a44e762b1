#pragma once

#include <optional>
#include <string>

namespace tpinfer {

struct RenderOptions {
  std::optional<std::string> folder;         // a model folder, or one with the tokenizer's files alone
  std::optional<std::string> template_file;  // a template instead of the folder's
  std::string jsonl;                         // records; - is standard input
};

/// Renders each record as a chat template's context and prints {"text"} or {"error"} for it, line by line. 5 when a
/// record failed, 3 when the template itself is at fault.
int run_render(const RenderOptions& options);

}  // namespace tpinfer
