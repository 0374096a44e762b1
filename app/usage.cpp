#include "app/usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "app/command_words.hpp"
#include "core/error.hpp"
#include "core/text_distance.hpp"

namespace tpinfer {
namespace {

std::vector<std::string> names_of(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands)
    if (!command.name.empty()) names.push_back(command.name);
  return names;
}

}  // namespace

std::vector<std::string> command_line_words(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::size_t first = 0;  // behind --color
  while (first < words.size() && words[first].starts_with("--color"))
    first += words[first] == "--color" && first + 1 < words.size() ? 2 : 1;
  if (first >= words.size() || words[first].starts_with("-")) return words;
  const std::string& word = words[first];
  if (!app.get_subcommands([&](const CLI::App* command) { return command->get_name() == word; }).empty()) return words;
  std::error_code failed;
  const bool like_a_file = word.find_first_of("./") != std::string::npos || std::filesystem::exists(word, failed);
  if (const std::string near = nearest_word(word, names_of(command_words(app))); !like_a_file && !near.empty())
    throw Error(ExitCode::usage, fmt::format("{} is neither a command nor a job file that is there", word),
                fmt::format("did you mean tpinfer {}?", near));
  if (std::filesystem::is_directory(word, failed))
    throw Error(ExitCode::usage, fmt::format("{} is a folder, a job file is needed", word),
                fmt::format("tpinfer plan {} shows what ranks would hold of a model", word));
  words.insert(words.begin(), "run");
  return words;
}

std::string usage_hint(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<CommandWords> commands = command_words(app);
  const CommandWords* command = &commands.front();
  for (const std::string& word : words) {
    const auto at = std::ranges::find(commands, word, &CommandWords::name);
    if (at == commands.end() || word.empty()) continue;
    command = &*at;
    break;
  }
  const std::string help = "tpinfer " + command->name + (command->name.empty() ? "--help" : " --help");
  std::vector<std::string> options;
  for (const OptionWords& option : command->options)
    if (!option.argument) options.insert(options.end(), option.names.begin(), option.names.end());
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::ranges::find(options, name) != options.end()) continue;
    if (const std::string near = nearest_word(name, options); !near.empty())
      return fmt::format("{}: did you mean {}? {}", name, near, help);
  }
  return help;
}

bool is_first_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return std::string_view(rank) == "0";
  return true;
}

}  // namespace tpinfer
