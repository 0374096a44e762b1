#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "core/parallel_for.hpp"

namespace tpinfer {

/// Processors that this process may run on (at least 1).
int available_processors() noexcept;

/// Persistent threads that share work with the calling one. Ranges are divided evenly and always in the same way.
///
/// A waiting thread spins for some microseconds, then yields, then sleeps. With more threads than processors it does
/// not spin at all. One caller at a time; a run() inside a body is done by the thread that calls it.
class ThreadTeam final : public ParallelFor {
 public:
  /// `threads` >= 1, the caller's included. `may_spin`: false where others need the processors.
  explicit ThreadTeam(int threads, bool may_spin = true);
  ~ThreadTeam() override;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const noexcept override { return static_cast<int>(errors_.size()); }
  /// An exception from a body is thrown again here when all threads are done; of several, the lowest thread's.
  void run(std::int64_t count, std::int64_t grain, const RangeBody& body) override;

 private:
  struct Work {
    std::int64_t count = 0;
    std::int64_t grain = 1;
    const RangeBody* body = nullptr;
  };
  void serve(std::size_t index);
  void do_share(std::size_t index) noexcept;
  /// Returns the value of `word` once it differs from `old`.
  std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old) const noexcept;

  int spins_;
  std::vector<std::exception_ptr> errors_;  ///< one for each thread
  Work work_;
  bool running_ = false;
  // Apart from each other: workers poll the first while others count down the second.
  alignas(64) std::atomic<std::uint32_t> generation_{0};  ///< a new value: new work
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};  ///< workers that have not done their share yet
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> workers_;
};

}  // namespace tpinfer
