#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tpinfer {

/// What a job that is to end early does.
enum class StopPhase : std::uint8_t {
  go,     ///< nothing
  close,  ///< begins no new prompt
  leave,  ///< ends after the step at hand; prompts that are running stay without their answers
};

/// How somebody asks for the end: by a signal, from another thread, or from another rank.
class StopSwitch {
 public:
  enum class Asked : int { no, gently, at_once };
  void ask(Asked how) noexcept {
    Asked now = asked_.load();
    while (now < how && !asked_.compare_exchange_weak(now, how)) {
    }
  }
  Asked asked() const noexcept { return asked_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Asked> asked_{Asked::no};
};

/// Rank 0's decision when to stop. A time limit closes the job `margin` before it ends; a gentle request closes it at
/// once and counts as a limit that is `margin` away. Running prompts go on until the last quarter of the margin (30 s
/// at most), which is for writing.
class StopPlan {
 public:
  using Clock = std::chrono::steady_clock;

  StopPlan(const StopSwitch& asked, std::optional<Clock::time_point> limit, double margin_seconds);
  /// To be called every step; a phase is never left for an earlier one.
  StopPhase phase(Clock::time_point now = Clock::now()) noexcept;

 private:
  const StopSwitch& asked_;
  Clock::duration margin_;
  Clock::duration reserve_;
  std::optional<Clock::time_point> close_at_, leave_at_;
  StopPhase phase_ = StopPhase::go;
};

}  // namespace tpinfer
