#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tpinfer {

/// What one rank does and when, on stderr, for run.log_level: debug. Lines are kept until it is known whether anybody
/// wants them.
class PhaseLog {
 public:
  using Clock = std::chrono::steady_clock;

  PhaseLog(int rank, Clock::time_point start) : rank_(rank), start_(start) {}
  /// From here on lines are printed at once, or dropped.
  void decide(bool wanted);
  /// "tpinfer: debug: rank 1 at 0.532 s: TEXT"
  void tell(const std::string& text);

  template <class Work>
  auto time(const char* what, Work work) {
    const Timer timer{*this, what, Clock::now()};
    return work();
  }

 private:
  /// Tells also of a phase that ends in an error.
  struct Timer {
    PhaseLog& log;
    const char* what;
    Clock::time_point begin;
    ~Timer() { log.took(what, begin); }
  };
  void took(const char* what, Clock::time_point begin) noexcept;

  enum class State { undecided, wanted, dropped } state_ = State::undecided;
  int rank_;
  Clock::time_point start_;
  std::vector<std::string> lines_;
};

}  // namespace tpinfer
