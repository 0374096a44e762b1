#include "app/cmd_completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/print.hpp"
#include "core/error.hpp"
#include "job/reader.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kKeyValue = "KEY=VALUE";

// Keys that hold a value, as `--set` takes them.
std::vector<std::string> settable_keys() {
  const std::vector<std::string> all = known_keys();
  std::vector<std::string> keys;
  for (const std::string& key : all) {
    const bool section = std::ranges::any_of(all, [&](const std::string& k) { return k.starts_with(key + "."); });
    if (!section && key != "version" && key != "include" && key != "sampling_given") keys.push_back(key + "=");
  }
  return keys;
}

// In single quotes for a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> names_of(const CommandWords& command) {
  std::vector<std::string> names;
  for (const OptionWords& option : command.options)
    if (!option.argument) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// ---- bash ----

// The options of a command that are followed by one of a few words.
void bash_values(const CommandWords& command, std::string& out) {
  for (const OptionWords& option : command.options) {
    if (!option.takes_value() || option.argument) continue;
    const std::string pattern = fmt::format("{}", fmt::join(option.names, "|"));
    if (!option.choices.empty())
      out += fmt::format("        {}) words={} ;;\n", pattern,
                         shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
    else if (option.value == kKeyValue)
      out += fmt::format("        {}) words=$keys; compopt -o nospace 2>/dev/null ;;\n", pattern);
    else
      out += fmt::format("        {}) return ;;\n", pattern);  // a path, or what nobody can guess
  }
}

void bash_command(const CommandWords& command, std::string& out) {
  std::vector<std::string> choices;  // of its arguments
  for (const OptionWords& option : command.options)
    if (option.argument) choices.insert(choices.end(), option.choices.begin(), option.choices.end());
  out += fmt::format("    {})\n      case $prev in\n", command.name);
  bash_values(command, out);
  // options only where one has begun, so that files come to mind otherwise
  out += fmt::format("        *) words={}; [[ $cur == -* ]] && words={} ;;\n      esac ;;\n",
                     shell_quoted(fmt::format("{}", fmt::join(choices, " "))),
                     shell_quoted(fmt::format("{}", fmt::join(names_of(command), " "))));
}

std::string bash_script(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands)
    if (!command.name.empty()) names.push_back(command.name);
  std::string cases;
  for (const CommandWords& command : commands)
    if (!command.name.empty()) bash_command(command, cases);
  return fmt::format(
      R"(# bash completion of tpinfer, made by: tpinfer completion bash
_tpinfer() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= words= i
  local keys={keys}
  COMPREPLY=()
  # bash takes "=" for a word
  if [[ $cur == "=" ]]; then cur=; elif [[ $prev == "=" ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {names_pattern}) command=${{COMP_WORDS[i]}}; break ;;
      --color) ((i++)) ;;
      -*) ;;
      *) command=run; break ;; # a job file
    esac
  done
  case $command in
    "")
      case $prev in
        --color) words={colors} ;;
        *) words={top} ;;
      esac ;;
{cases}  esac
  # where nothing fits, -o default completes names of files
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _tpinfer tpinfer
)",
      fmt::arg("keys", shell_quoted(fmt::format("{}", fmt::join(settable_keys(), " ")))),
      fmt::arg("names_pattern", fmt::join(names, "|")), fmt::arg("colors", shell_quoted("auto always never")),
      fmt::arg("top",
               shell_quoted(fmt::format("{} {}", fmt::join(names, " "), fmt::join(names_of(commands.front()), " ")))),
      fmt::arg("cases", cases));
}

// ---- zsh ----

// Text inside of an _arguments specification.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionWords& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  if (option.value == kKeyValue) return "->keys";
  if (option.value == "DIR") return "_files -/";
  return option.takes_path() || option.argument ? "_files" : " ";
}

std::string zsh_option(const OptionWords& option) {
  if (option.argument)
    return shell_quoted(
        fmt::format("{}:{}:{}", option.many ? "*" : "", zsh_text(option.names.front()), zsh_action(option)));
  const std::string value =
      option.takes_value() ? fmt::format(":{}:{}", zsh_text(option.value), zsh_action(option)) : "";
  std::string specs;
  for (const std::string& name : option.names) {
    const std::string equals = option.takes_value() && name.starts_with("--") ? "=" : "";
    const std::string repeat = option.value == kKeyValue ? "*" : "";
    specs += (specs.empty() ? "" : " ") +
             shell_quoted(fmt::format("{}{}{}[{}]{}", repeat, name, equals, zsh_text(option.description), value));
  }
  return specs;
}

std::string zsh_script(const std::vector<CommandWords>& commands) {
  std::string list, pattern, cases;
  for (const CommandWords& command : commands) {
    if (command.name.empty()) continue;
    list += "    " + shell_quoted(fmt::format("{}:{}", command.name, command.description)) + "\n";
    pattern += (pattern.empty() ? "" : "|") + command.name;
    cases += fmt::format("    {})\n      _arguments -s -S", command.name);
    for (const OptionWords& option : command.options) cases += " \\\n        " + zsh_option(option);
    cases += " ;;\n";
  }
  std::string keys;
  for (const std::string& key : settable_keys()) keys += " " + shell_quoted(key);
  return fmt::format(R"(#compdef tpinfer
# zsh completion of tpinfer, made by: tpinfer completion zsh
_tpinfer() {{
  local -a subcommands keys
  local context state line command=run
  local -A opt_args
  subcommands=(
{list}  )
  keys=({keys} )
  if (( CURRENT == 2 )); then
    _describe -t commands command subcommands
    _files -g '*.(yaml|yml|json)(-.)'
    return
  fi
  case $words[2] in
    {pattern}) command=$words[2]; shift words; (( CURRENT-- )) ;;
  esac
  case $command in
{cases}  esac
  [[ $state == keys ]] && compadd -S '' -a keys
}}
if [[ $funcstack[1] == _tpinfer ]]; then _tpinfer "$@"; else compdef _tpinfer tpinfer; fi
)",
                     fmt::arg("list", list), fmt::arg("keys", keys), fmt::arg("pattern", pattern),
                     fmt::arg("cases", cases));
}

// ---- fish ----

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_option(const std::string& when, const OptionWords& option) {
  std::string line = fmt::format("complete -c tpinfer -n {}", fish_quoted(when));
  if (!option.argument)
    for (const std::string& name : option.names)
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  std::vector<std::string> choices = option.choices;
  if (option.value == kKeyValue) choices = settable_keys();
  if (!choices.empty())
    line += " -x -a " + fish_quoted(fmt::format("{}", fmt::join(choices, " ")));
  else if (option.takes_value() && !option.argument)
    line += option.takes_path() ? " -r -F" : " -x";
  return line + " -d " + fish_quoted(option.description) + "\n";
}

std::string fish_script(const std::vector<CommandWords>& commands) {
  std::string out = "# fish completion of tpinfer, made by: tpinfer completion fish\n", names;
  for (const CommandWords& command : commands) {
    if (command.name.empty()) continue;
    names += " " + command.name;
    out += fmt::format("complete -c tpinfer -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       fish_quoted(command.description));
  }
  for (const CommandWords& command : commands) {
    // a job file alone is `run`
    const std::string when = command.name.empty() ? "__fish_use_subcommand"
                             : command.name == "run"
                                 ? "not __fish_use_subcommand; and begin; __fish_seen_subcommand_from "
                                   "run; or not __fish_seen_subcommand_from" +
                                       names + "; end"
                                 : "__fish_seen_subcommand_from " + command.name;
    for (const OptionWords& option : command.options)
      if (!option.argument || !option.choices.empty()) out += fish_option(when, option);
  }
  return out;
}

}  // namespace

int run_completion(const std::vector<CommandWords>& commands, const std::string& shell) {
  print_all(shell == "bash" ? bash_script(commands) : shell == "zsh" ? zsh_script(commands) : fish_script(commands));
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
