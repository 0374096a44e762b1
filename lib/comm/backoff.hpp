#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tpinfer {

/// How a rank waits for others: it spins for some microseconds, then gives way to other processes, and after
/// kYieldTime naps for a twentieth of the time waited so far (50 us to 2 ms). So a wait is at most about 5 % longer
/// than needed, ranks that share a core do not starve each other, and a rank that waits for minutes uses no core.
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kYieldTime = 10e-3;

  /// timeout: seconds until step() says no; spins: steps before the first yield, 0 when ranks share cores.
  Backoff(double timeout, int spins) noexcept : start_(Clock::now()), timeout_(timeout), spins_(spins) {}

  /// One step of waiting; false once the deadline has passed.
  bool step() {
    if (spins_ > 0) {
      --spins_;
      pause();
      return true;
    }
    const double so_far = waited();
    if (so_far < kYieldTime) {
      sched_yield();
    } else {
      const double nap = std::clamp(so_far / 20, 50e-6, 2e-3);
      std::this_thread::sleep_for(std::chrono::duration<double>(nap));
    }
    return so_far < timeout_;
  }

  /// Seconds since the wait began.
  double waited() const noexcept { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  /// Whether spinning is over, so that reading the clock costs nothing that matters.
  bool slow() const noexcept { return spins_ <= 0; }

 private:
  static void pause() noexcept {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  Clock::time_point start_;
  double timeout_;
  int spins_;
};

}  // namespace tpinfer
