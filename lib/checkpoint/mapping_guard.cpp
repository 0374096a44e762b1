#include "checkpoint/mapping_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::uintptr_t kNowhere = UINTPTR_MAX;

/// What the signal handler works with: a handler has no other way to its data than memory that is the process's own.
struct Watch {
  std::atomic<bool> taken = false;
  std::atomic<std::uintptr_t> begin = 0;  ///< of the first byte's page
  std::atomic<std::uintptr_t> end = 0;    ///< nothing is watched while this is 0
  std::atomic<std::uintptr_t> first = 0;  ///< byte
  std::atomic<std::uintptr_t> lowest = kNowhere;
  std::uintptr_t page = 0;
  struct sigaction before {};
};
Watch watch;
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free, "used in a signal handler");

// Runs in the thread that looked, in the middle of its copying: puts zeros where the file has nothing.
void on_bus_error(int number, siginfo_t* info, void*) {
  const int saved = errno;
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::uintptr_t end = watch.end.load(std::memory_order_acquire);
  if (at >= watch.begin.load(std::memory_order_relaxed) && at < end) {
    const std::uintptr_t page = at / watch.page * watch.page;
    const std::size_t length = (end - page + watch.page - 1) / watch.page * watch.page;
    if (::mmap(reinterpret_cast<void*>(page), length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        MAP_FAILED) {
      std::uintptr_t lowest = watch.lowest.load(std::memory_order_relaxed);
      while (at < lowest && !watch.lowest.compare_exchange_weak(lowest, at, std::memory_order_relaxed)) {
      }
      errno = saved;
      return;
    }
  }
  ::sigaction(number, &watch.before, nullptr);  // it comes again, as if there were no guard
  errno = saved;
}

}  // namespace

MappingGuard::MappingGuard(std::span<const std::byte> bytes) {
  if (watch.taken.exchange(true)) throw Error(ExitCode::internal, "two mappings are guarded at once");
  watch.page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  watch.first = reinterpret_cast<std::uintptr_t>(bytes.data());
  watch.begin = watch.first / watch.page * watch.page;
  watch.lowest = kNowhere;
  watch.end.store(watch.first + bytes.size(), std::memory_order_release);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &watch.before);
}

MappingGuard::~MappingGuard() {
  ::sigaction(SIGBUS, &watch.before, nullptr);
  watch.end.store(0, std::memory_order_release);
  watch.taken = false;
}

std::optional<std::size_t> MappingGuard::failed_at() const noexcept {
  const std::uintptr_t lowest = watch.lowest.load(std::memory_order_relaxed);
  if (lowest == kNowhere) return std::nullopt;
  return lowest < watch.first ? 0 : lowest - watch.first;
}

}  // namespace tpinfer
