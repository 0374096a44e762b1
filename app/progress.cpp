#include "app/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "app/environment.hpp"
#include "app/table.hpp"
#include "core/units.hpp"

namespace tpinfer {
namespace {

bool is_terminal() {
  const std::string kind = environment("TERM");
  return ::isatty(STDERR_FILENO) && kind != "dumb" && !kind.empty();
}

// Asked anew for each bar: a window may change its size. Behind mpirun's pipe there is none to ask.
std::size_t terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int columns = std::atoi(environment("COLUMNS").c_str());
  return columns > 0 ? static_cast<std::size_t>(columns) : 80;
}

}  // namespace

double PromptProgress::share() const { return all > 0 ? static_cast<double>(ended) / static_cast<double>(all) : 0; }

std::string PromptProgress::text() const {
  const double rest = ended_now > 0 ? seconds * static_cast<double>(left) / static_cast<double>(ended_now) : 0;
  const std::string kv = kv_share < 0 ? "" : fmt::format("kv {:.0f}% | ", 100 * kv_share);
  return fmt::format("{}/{} prompts | {:.0f} tok/s | {} elapsed | ETA {} | {}failed {}", ended, all,
                     static_cast<double>(tokens) / std::max(seconds, 1e-9), format_clock(seconds), format_clock(rest),
                     kv, failed);
}

std::string bar_line(int percent, const std::string& text, std::size_t columns) {
  constexpr std::size_t kLongest = 24, kShortest = 8, kAround = 8;  // brackets, percentage, blanks
  const std::size_t used = text.size() + kAround;
  const std::size_t width = columns > used ? std::min(kLongest, columns - used) : 0;
  if (width < kShortest) return one_line(fmt::format("{}% {}", percent, text), columns);
  const auto filled = width * static_cast<std::size_t>(percent) / 100;
  return fmt::format("[{}{}] {:3}% {}", std::string(filled, '='), std::string(width - filled, ' '), percent, text);
}

Progress::Progress(ProgressStyle style) : style_(style) {
  if (style_ == ProgressStyle::automatic) style_ = is_terminal() ? ProgressStyle::bar : ProgressStyle::lines;
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
    // the last column stays free: a cursor there would be in the next line on some terminals
    const std::size_t columns = std::max<std::size_t>(terminal_columns(), 2) - 1;
    fmt::print(stderr, "\r{}\x1b[K", bar_line(percent, text, columns));
    open_ = true;
  }
  std::fflush(stderr);
}

void Progress::clear() {
  if (!open_) return;
  fmt::print(stderr, "\r\x1b[K");
  open_ = false;
}

void Progress::close() {
  if (!open_) return;
  fmt::print(stderr, "\n");
  open_ = false;
}

}  // namespace tpinfer
