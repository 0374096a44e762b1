#include "comm/host_exchange.hpp"

#include <limits>

#include "comm/backoff.hpp"
#include "comm/shm_window.hpp"

namespace tpinfer {
namespace {

constexpr std::uint64_t kFailed = std::numeric_limits<std::uint64_t>::max();
constexpr int kSpins = 200;

}  // namespace

HostExchange::HostExchange(Communicator& comm, std::size_t bytes, double timeout)
    : local_(comm.split(comm.host(), "exchange between the ranks of a host")), bytes_(bytes), timeout_(timeout) {
  WindowShape shape;
  shape.ranks = local_->size();
  shape.most_gathered = static_cast<std::int64_t>(2 * bytes / sizeof(float));
  window_ = ShmWindow::make(comm, *local_, shape);
}

HostExchange::~HostExchange() = default;

int HostExchange::rank() const noexcept { return local_->rank(); }
int HostExchange::size() const noexcept { return local_->size(); }

std::byte* HostExchange::buffer(int rank) const noexcept {
  return reinterpret_cast<std::byte*>(window_->gathered(rank)) + (round_ % 2) * bytes_;
}

bool HostExchange::meet() {
  const std::uint64_t now = round_ + 1;
  window_->line(rank()).tick.store(now, std::memory_order_release);
  for (int other = 0; other < size(); ++other) {
    Backoff wait(timeout_, kSpins);
    for (;;) {
      const std::uint64_t tick = window_->line(other).tick.load(std::memory_order_acquire);
      if (tick == kFailed) {
        fail();  // a rank that is a round ahead may wait for this one and never look at the one that failed
        return false;
      }
      if (tick >= now) break;
      if (!wait.step())
        throw Error(
            ExitCode::communication,
            fmt::format("rank {} of this host has not read its part of the weights within {:.0f} s", other, timeout_));
    }
  }
  return true;
}

void HostExchange::fail() noexcept { window_->line(rank()).tick.store(kFailed, std::memory_order_release); }

}  // namespace tpinfer
