#include "app/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

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

// The last column stays free: a cursor there would be in the next line on some terminals.
std::size_t room() { return std::max<std::size_t>(terminal_columns(), 2) - 1; }

}  // namespace

double PromptProgress::share() const { return all > 0 ? static_cast<double>(ended) / static_cast<double>(all) : 0; }

namespace {

std::string text_of(const PromptProgress& p, std::string_view prompts, const std::string& elapsed) {
  const double rest = p.ended_now > 0 ? p.seconds * static_cast<double>(p.left) / static_cast<double>(p.ended_now) : 0;
  const std::string kv = p.kv_share < 0 ? "" : fmt::format("kv {:.0f}% | ", 100 * p.kv_share);
  return fmt::format("{}/{}{}{} | {:.0f} tok/s | {}ETA {} | {}failed {}", p.ended, p.all, p.more ? "+" : "", prompts,
                     static_cast<double>(p.tokens) / std::max(p.seconds, 1e-9), elapsed, format_clock(rest), kv,
                     p.failed);
}

int percent_of(double share) { return static_cast<int>(std::clamp(share, 0.0, 1.0) * 100); }

constexpr std::size_t kLongestBar = 24, kShortestBar = 5, kAroundBar = 8;  // brackets, percentage, blanks

}  // namespace

std::string PromptProgress::text() const { return text_of(*this, " prompts", format_clock(seconds) + " elapsed | "); }
std::string PromptProgress::short_text() const { return text_of(*this, "", ""); }

std::string bar_line(int percent, const std::string& text, std::size_t columns) {
  const std::size_t used = text.size() + kAroundBar;
  const std::size_t width = columns > used ? std::min(kLongestBar, columns - used) : 0;
  if (width < kShortestBar) return one_line(fmt::format("{}% {}", percent, text), columns);
  const auto filled = width * static_cast<std::size_t>(percent) / 100;
  return fmt::format("[{}{}] {:3}% {}", std::string(filled, '='), std::string(width - filled, ' '), percent, text);
}

std::string bar_line(const PromptProgress& prompts, std::size_t columns) {
  const std::string text = prompts.text();
  const bool fits = text.size() + kAroundBar + kShortestBar <= columns;
  return bar_line(percent_of(prompts.share()), fits ? text : prompts.short_text(), columns);
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

void Progress::draw(const std::string& bar) {
  fmt::print(stderr, "\r{}\x1b[K", bar);
  std::fflush(stderr);
  open_ = true;
}

void Progress::show(double share, const std::string& text) {
  if (style_ == ProgressStyle::none || !due(share)) return;
  if (style_ == ProgressStyle::bar) return draw(bar_line(percent_of(share), text, room()));
  fmt::print(stderr, "[{:3}%] {}\n", percent_of(share), text);
  std::fflush(stderr);
}

void Progress::show(const PromptProgress& prompts) {
  if (style_ != ProgressStyle::bar) return show(prompts.share(), prompts.text());
  if (due(prompts.share())) draw(bar_line(prompts, room()));
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
