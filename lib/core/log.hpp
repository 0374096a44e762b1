#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

namespace tpinfer {

enum class LogLevel { debug, info, warning, error };

/// Where the library's messages go: a value passed in by app/, never a global. Default-constructed it drops everything.
class Log {
 public:
  using Sink = std::function<void(LogLevel, const std::string&)>;

  Log() = default;
  explicit Log(Sink sink) : sink_(std::move(sink)) {}

  void write(LogLevel level, const std::string& text) const {
    if (sink_) sink_(level, text);
  }
  template <class... Args>
  void debug(fmt::format_string<Args...> text, Args&&... args) const {
    if (sink_) write(LogLevel::debug, fmt::format(text, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) const {
    if (sink_) write(LogLevel::info, fmt::format(text, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> text, Args&&... args) const {
    if (sink_) write(LogLevel::warning, fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  Sink sink_;
};

}  // namespace tpinfer
