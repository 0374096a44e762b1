#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "runtime/stop.hpp"

namespace tpinfer {

/// Turns signals into wishes to stop while it lives: SIGUSR1 into a gentle one, SIGTERM and SIGINT into one at once; a
/// second of these ends the program. They are blocked for the thread that makes it and all that it starts later, so it
/// must be made before any other thread, and waited for by a thread of its own: no handler runs anywhere.
class SignalWatch {
 public:
  explicit SignalWatch(StopSwitch& asked);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// A file that SIGTERM and SIGINT sync at once, before anything else is done about them; -1: none.
  void sync_on_end(int fd) noexcept { fd_.store(fd); }

 private:
  void watch();

  StopSwitch& asked_;
  std::atomic<int> fd_{-1};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace tpinfer
