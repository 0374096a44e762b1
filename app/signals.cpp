#include "app/signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace tpinfer {
namespace {

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaddset(&set, signal);
  return set;
}

void end_by(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
}

}  // namespace

SignalWatch::SignalWatch(StopSwitch& asked) : asked_(asked) {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  over_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void SignalWatch::watch() {
  const sigset_t set = watched();
  bool again = false;
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (over_) return;
    if (signal == SIGUSR1) {
      asked_.ask(StopSwitch::Asked::gently);
      continue;
    }
    if (const int fd = fd_; fd >= 0) ::fdatasync(fd);
    if (again) end_by(signal);
    again = true;
    asked_.ask(StopSwitch::Asked::at_once);
  }
}

}  // namespace tpinfer
