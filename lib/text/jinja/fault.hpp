#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace tpinfer::jinja {

enum class FaultKind { syntax, runtime, raised };

/// What stops a template, before the template's name is known: the place is added by the innermost expression or
/// statement that it passes.
class Fault : public std::runtime_error {
 public:
  Fault(FaultKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Fault(FaultKind kind, const std::string& message, int line) : std::runtime_error(message), kind_(kind), line_(line) {}

  FaultKind kind() const noexcept { return kind_; }
  int line() const noexcept { return line_; }  // 0: not known yet
  const std::string& expression() const noexcept { return expression_; }
  void place(int line, std::string expression) {
    line_ = line;
    expression_ = std::move(expression);
  }

 private:
  FaultKind kind_;
  int line_ = 0;
  std::string expression_;
};

/// Shorthand: throws a Fault of the running template.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Fault(FaultKind::runtime, fmt::format(text, std::forward<Args>(args)...));
}

/// What one rendering may use up; shared by everything that works for it.
class Budget {
 public:
  Budget(std::size_t steps, std::size_t bytes) : steps_(steps), bytes_(bytes) {}

  /// Counts work that grows with `bytes` read.
  void work(std::size_t bytes = 0) {
    const std::size_t cost = 1 + bytes / 64;
    if (cost > steps_) fail("the template takes too many steps");
    steps_ -= cost;
  }
  /// Counts memory about to be made.
  void make(std::size_t bytes) {
    if (bytes > bytes_) fail("the template makes too much text");
    bytes_ -= bytes;
    work(bytes);
  }

 private:
  std::size_t steps_;
  std::size_t bytes_;
};

}  // namespace tpinfer::jinja
