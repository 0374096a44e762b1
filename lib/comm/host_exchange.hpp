#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/communicator.hpp"

namespace tpinfer {

class ShmWindow;

/// Shared memory through which the ranks of one host hand each other what each of them has read. Two buffers a rank:
/// what is written to one may still be read by others while the next is written to the other.
class HostExchange {
 public:
  /// Collective over `comm`; `bytes` for each of a rank's two buffers. Throws the same Error(communication) on all
  /// ranks when there is no room.
  HostExchange(Communicator& comm, std::size_t bytes, double timeout);
  ~HostExchange();

  int rank() const noexcept;  ///< among the ranks of this host
  int size() const noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

  /// This rank's buffer of the round at hand, to be filled before meet().
  std::byte* mine() const noexcept { return buffer(rank()); }
  /// Ends the filling: true once every rank of the host has called it; false when one of them has failed, which ends
  /// the exchange.
  bool meet();
  /// A rank's buffer of the round that meet() ended, until the next but one meet().
  const std::byte* of(int rank) const noexcept { return buffer(rank); }
  /// Begins the next round.
  void next() noexcept { ++round_; }
  /// Tells the others that this rank will not come any more.
  void fail() noexcept;

 private:
  std::byte* buffer(int rank) const noexcept;

  std::unique_ptr<Communicator> local_;
  std::shared_ptr<ShmWindow> window_;
  std::size_t bytes_;
  double timeout_;
  std::uint64_t round_ = 0;
};

}  // namespace tpinfer
