#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tpinfer {

/// Exit codes of the program; the table stands in README.md.
enum class ExitCode : int {
  ok = 0,
  internal = 1,
  usage = 2,
  input = 3,
  does_not_fit = 4,
  prompts_failed = 5,
  communication = 6,
  output = 7,
  stopped_early = 75,
};

/// A complaint to the user: one sentence with names and values, what to do about it, and the exit code that it leads
/// to.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what, const std::string& hint = {})
      : std::runtime_error(hint.empty() ? what : what + " (" + hint + ")"), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Shorthand: throws Error(input) with a formatted sentence.
template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ExitCode::input, fmt::format(text, std::forward<Args>(args)...));
}

/// The text of errno value `number`, e.g. "No such file or directory".
std::string system_message(int number);

}  // namespace tpinfer
