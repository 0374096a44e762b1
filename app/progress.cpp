#include "app/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tpinfer {

Progress::Progress(ProgressStyle style) : style_(style) {
  if (style_ == ProgressStyle::automatic) style_ = ::isatty(STDERR_FILENO) ? ProgressStyle::bar : ProgressStyle::lines;
}

Progress::~Progress() { close(); }

bool Progress::due(double share) {
  const auto now = std::chrono::steady_clock::now();
  const bool bar = style_ == ProgressStyle::bar;
  const auto pause = bar ? std::chrono::milliseconds(200) : std::chrono::milliseconds(30000);
  const int step = static_cast<int>(share * 20);
  const bool crowded = now - last_ < std::chrono::seconds(1);  // a short phase shows its start and its end
  if (last_step_ >= 0 && share < 1 && now - last_ < pause && (bar || crowded || step == last_step_)) return false;
  last_ = now;
  last_step_ = step;
  return true;
}

void Progress::show(double share, const std::string& text) {
  if (style_ == ProgressStyle::none || !due(share)) return;
  const int percent = static_cast<int>(std::clamp(share, 0.0, 1.0) * 100);
  if (style_ == ProgressStyle::lines) {
    fmt::print(stderr, "[{:3}%] {}\n", percent, text);
  } else {
    constexpr int kWidth = 24;
    const auto filled = static_cast<std::size_t>(percent * kWidth / 100);
    fmt::print(stderr, "\r[{}{}] {:3}% {}\x1b[K", std::string(filled, '='), std::string(kWidth - filled, ' '), percent,
               text);
    open_ = true;
  }
  std::fflush(stderr);
}

void Progress::close() {
  if (!open_) return;
  fmt::print(stderr, "\n");
  open_ = false;
}

}  // namespace tpinfer
