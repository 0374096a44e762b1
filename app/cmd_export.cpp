#include "app/cmd_export.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>

#include "core/error.hpp"
#include "output/export.hpp"
#include "output/stored_answers.hpp"

namespace tpinfer {
namespace {

ExportFormat format_of(const std::string& word) {
  if (word == "csv") return ExportFormat::csv;
  if (word == "text") return ExportFormat::text;
  return word == "openai" ? ExportFormat::openai : ExportFormat::jsonl;
}

void export_to_stdout(RowSource& rows, const ExportOptions& options) {
  // a reader that has enough, as `head` has, ends this program without a complaint
  std::signal(SIGPIPE, SIG_DFL);
  const auto failed = [] {
    throw Error(ExitCode::output, fmt::format("standard output can not be written: {}", system_message(errno)),
                "make room where it goes");
  };
  export_rows(rows, options, [&](std::string_view lines) {
    if (std::fwrite(lines.data(), 1, lines.size(), stdout) != lines.size()) failed();
  });
  if (std::fflush(stdout) != 0) failed();
}

void refuse_own_source(const ExportCommand& command) {
  std::error_code none;
  if (std::filesystem::equivalent(command.file, command.output, none))
    throw Error(ExitCode::usage, fmt::format("{} is the result file itself", command.output),
                "name another file for -o");
}

}  // namespace

int run_export(const ExportCommand& command) {
  const ExportOptions options{format_of(command.format), command.openai_object == "chat.completion"};
  std::vector<std::string> damage;
  const auto rows = open_answers(command.file, &damage);
  for (const std::string& sentence : damage) fmt::print(stderr, "tpinfer: warning: {}\n", sentence);
  if (command.output == "-") {
    export_to_stdout(*rows, options);
  } else {
    refuse_own_source(command);
    export_to_file(*rows, options, command.output, "file for -o");
  }
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
