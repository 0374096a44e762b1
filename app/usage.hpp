#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tpinfer {

/// The words behind the program's name, in order, as they are to be parsed: `tpinfer job.yaml` is short for
/// `tpinfer run job.yaml`. Error(usage) for a word that is no file and nearly a command.
std::vector<std::string> command_line_words(const CLI::App& app, int argc, char** argv);

/// What to do about a command line that was refused: the option that was meant, where one is near, and the --help that
/// tells more.
std::string usage_hint(const CLI::App& app, const std::vector<std::string>& words);

/// False where a launcher has started this as another than the first of its ranks, as far as its variables tell.
bool is_first_rank();

}  // namespace tpinfer
