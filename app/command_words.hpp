#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tpinfer {

/// An option or argument of a command, for completion and manual.
struct OptionWords {
  std::vector<std::string> names = {};    ///< "-o", "--output"; of an argument its name alone
  std::string value = {};                 ///< kind of what follows: FILE, DIR, TEXT, ...; empty: a flag
  std::vector<std::string> choices = {};  ///< the words that may follow, where there are but a few
  std::string description = {};
  bool argument = false;  ///< stands by itself, without a name
  bool required = false;
  bool many = false;

  bool takes_value() const noexcept { return !value.empty(); }
  bool takes_path() const noexcept { return value == "FILE" || value == "DIR" || value == "PATH"; }
};

struct CommandWords {
  std::string name;  ///< empty: the program itself
  std::string description;
  std::vector<OptionWords> options;
};

/// The program's own options, then its commands in order; those that belong to no group are left out.
std::vector<CommandWords> command_words(const CLI::App& app);

}  // namespace tpinfer
