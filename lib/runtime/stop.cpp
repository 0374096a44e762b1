#include "runtime/stop.hpp"

#include <algorithm>

namespace tpinfer {
namespace {

constexpr double kMostReserve = 30;  // s

StopPlan::Clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<StopPlan::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

StopPlan::StopPlan(const StopSwitch& asked, std::optional<Clock::time_point> limit, double margin_seconds)
    : asked_(asked),
      margin_(as_duration(margin_seconds)),
      reserve_(as_duration(std::min(margin_seconds / 4, kMostReserve))) {
  if (!limit) return;
  close_at_ = *limit - margin_;
  leave_at_ = *limit - reserve_;
}

StopPhase StopPlan::phase(Clock::time_point now) noexcept {
  if (phase_ == StopPhase::leave) return phase_;
  const StopSwitch::Asked asked = asked_.asked();
  if (asked == StopSwitch::Asked::gently && phase_ == StopPhase::go) {
    const Clock::time_point end = now + margin_ - reserve_;
    leave_at_ = leave_at_ ? std::min(*leave_at_, end) : end;
    phase_ = StopPhase::close;
  }
  if (close_at_ && now >= *close_at_) phase_ = StopPhase::close;
  if (asked == StopSwitch::Asked::at_once || (leave_at_ && now >= *leave_at_)) phase_ = StopPhase::leave;
  return phase_;
}

}  // namespace tpinfer
