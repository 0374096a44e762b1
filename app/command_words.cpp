#include "app/command_words.hpp"

#include <algorithm>

namespace tpinfer {
namespace {

// "TEXT:{auto,bar}" is a kind and a set of words.
void read_type(const std::string& type, OptionWords& words) {
  const auto open = type.find('{');
  const auto close = type.find('}', open == std::string::npos ? 0 : open);
  words.value = type.substr(0, type.find(':'));
  if (open == std::string::npos || close == std::string::npos) return;
  std::string list = type.substr(open + 1, close - open - 1);
  for (std::size_t from = 0; from <= list.size();) {
    const auto comma = std::min(list.find(',', from), list.size());
    words.choices.push_back(list.substr(from, comma - from));
    from = comma + 1;
  }
}

OptionWords words_of(const CLI::Option& option) {
  OptionWords words{.description = option.get_description(),
                    .argument = !option.nonpositional(),
                    .required = option.get_required(),
                    .many = option.get_items_expected_max() > 1};
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  if (words.argument) words.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0) read_type(option.get_type_name(), words);
  return words;
}

// Groups of options are nameless commands to CLI11.
void collect(const CLI::App& app, std::vector<OptionWords>& out) {
  for (const CLI::Option* option : app.get_options()) out.push_back(words_of(*option));
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App* a) { return a->get_name().empty(); }))
    collect(*inner, out);
}

}  // namespace

std::vector<CommandWords> command_words(const CLI::App& app) {
  std::vector<CommandWords> out{{"", app.get_description(), {}}};
  collect(app, out.back().options);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); })) {
    out.push_back({command->get_name(), command->get_description(), {}});
    collect(*command, out.back().options);
  }
  return out;
}

}  // namespace tpinfer
