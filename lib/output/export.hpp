#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "output/row_source.hpp"

namespace tpinfer {

enum class ExportFormat { jsonl, csv, text, openai };

struct ExportOptions {
  ExportFormat format = ExportFormat::jsonl;
  bool chat = true;  ///< openai: bodies are chat.completion, otherwise text_completion
};

/// Hands all rows to `write`, in pieces that end with a line's end (README, "Results in other formats"). Prompts
/// without an answer are rows too, with the reason.
void export_rows(RowSource& rows, const ExportOptions& options, const std::function<void(std::string_view)>& write);

/// The same into a file that appears when it is whole. `option`: where the user named it. Error(output).
void export_to_file(RowSource& rows, const ExportOptions& options, const std::filesystem::path& file,
                    const char* option);

}  // namespace tpinfer
