#include "backend/cpu/thread_team.hpp"

#include <sched.h>

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr int kSpins = 600;   // about 10 to 30 microseconds
constexpr int kYields = 100;  // then sleep

void pause_briefly() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int available_processors() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadTeam::ThreadTeam(int threads, bool may_spin)
    : spins_(may_spin && threads <= available_processors() ? kSpins : 0) {
  if (threads < 1) throw Error(ExitCode::internal, fmt::format("a team of {} threads was asked for", threads));
  errors_.resize(static_cast<std::size_t>(threads));
  workers_.reserve(errors_.size() - 1);
  for (std::size_t i = 1; i < errors_.size(); ++i) workers_.emplace_back([this, i] { serve(i); });
}

ThreadTeam::~ThreadTeam() {
  stopping_ = true;
  ++generation_;
  generation_.notify_all();
}

std::uint32_t ThreadTeam::wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old) const noexcept {
  for (int i = 0; i < spins_; ++i) {
    if (const auto now = word.load(std::memory_order_acquire); now != old) return now;
    pause_briefly();
  }
  for (int i = 0; i < kYields; ++i) {
    if (const auto now = word.load(std::memory_order_acquire); now != old) return now;
    std::this_thread::yield();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

void ThreadTeam::do_share(std::size_t index) noexcept {
  const auto threads = static_cast<std::int64_t>(errors_.size());
  const std::int64_t pieces = (work_.count + work_.grain - 1) / work_.grain;
  const auto me = static_cast<std::int64_t>(index);
  const std::int64_t begin = pieces * me / threads * work_.grain;
  const std::int64_t end = std::min(pieces * (me + 1) / threads * work_.grain, work_.count);
  if (begin >= end) return;
  try {
    (*work_.body)(begin, end);
  } catch (...) {
    errors_[index] = std::current_exception();
  }
}

void ThreadTeam::serve(std::size_t index) {
  std::uint32_t seen = 0;
  for (;;) {
    seen = wait_for_change(generation_, seen);
    if (stopping_) return;
    do_share(index);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void ThreadTeam::run(std::int64_t count, std::int64_t grain, const RangeBody& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (workers_.empty() || count <= grain || running_) {
    body(0, count);
    return;
  }
  running_ = true;
  work_ = {count, grain, &body};
  unfinished_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  do_share(0);
  for (std::uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;) {
    left = wait_for_change(unfinished_, left);
  }
  running_ = false;
  std::exception_ptr first;
  for (auto& error : errors_) {
    if (error && !first) first = error;
    error = nullptr;
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace tpinfer
