#pragma once

#include <filesystem>
#include <string>

namespace tpinfer {

struct ExportCommand {
  std::filesystem::path file;
  std::string format;        ///< jsonl, csv, text or openai
  std::string output = "-";  ///< a file, or standard output
  std::string openai_object = "chat.completion";
};

/// The rows of a result file in another format. Returns the exit code.
int run_export(const ExportCommand& command);

}  // namespace tpinfer
