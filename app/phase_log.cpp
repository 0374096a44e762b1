#include "app/phase_log.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace tpinfer {
namespace {

double seconds_between(PhaseLog::Clock::time_point begin, PhaseLog::Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// in one piece: several ranks write to the same place
void print_line(const std::string& line) { std::fwrite(line.data(), 1, line.size(), stderr); }

}  // namespace

void PhaseLog::decide(bool wanted) {
  state_ = wanted ? State::wanted : State::dropped;
  if (wanted)
    for (const std::string& line : lines_) print_line(line);
  lines_.clear();
}

void PhaseLog::tell(const std::string& text) {
  if (state_ == State::dropped) return;
  std::string line =
      fmt::format("tpinfer: debug: rank {} at {:.3f} s: {}\n", rank_, seconds_between(start_, Clock::now()), text);
  if (state_ == State::wanted)
    print_line(line);
  else
    lines_.push_back(std::move(line));
}

void PhaseLog::took(const char* what, Clock::time_point begin) noexcept {
  try {
    tell(fmt::format("{} took {:.3f} s", what, seconds_between(begin, Clock::now())));
  } catch (...) {  // no memory for a line that nobody needs
  }
}

}  // namespace tpinfer
