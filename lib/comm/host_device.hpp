#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/device_communicator.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/shm_window.hpp"

namespace tpinfer {

/// Where the ranks of a group run, and what connects them.
struct Topology {
  std::unique_ptr<MpiCommunicator> all;     ///< of the collectives' own, so that they never meet those of the host side
  std::unique_ptr<MpiCommunicator> local;   ///< the ranks of this host
  std::unique_ptr<MpiCommunicator> across;  ///< one host: null; hosts of equal size: the ranks with this rank's local
                                            ///< number; otherwise the first ranks of the hosts (on others: no use)
  std::vector<int> local_ranks;             ///< ranks in `all` of this host's ranks
  int hosts = 1;
  bool equal_hosts = true;
  bool first_host = true;  ///< rank 0 runs here
  bool crowded = false;    ///< the threads of this host's ranks exceed the cores they may use

  int local_rank() const noexcept { return local->rank(); }
  int local_size() const noexcept { return local->size(); }
};

/// What tests may pretend.
struct HostDeviceOverrides {
  std::vector<int> hosts;                 ///< host number of each rank; empty: as it is
  std::optional<std::uint64_t> shm_free;  ///< bytes free in /dev/shm
};

/// Base of the host side's communicators: counts and times.
class HostDeviceCommunicator : public DeviceCommunicator {
 public:
  bool shares_rows() const noexcept override { return true; }
  CommunicationStats stats() const override { return stats_; }
  /// Forgets what the self-test did.
  void reset_stats() noexcept { stats_ = {}; }
  std::string_view note() const noexcept override { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

 protected:
  explicit HostDeviceCommunicator(const DeviceCommunicatorOptions& options) : options_(options) {}
  /// Throw Error(internal) when a request does not fit in what was asked for at the start. -> elements
  std::int64_t check_count(const Tensor& partials, const Tensor& total) const;
  void check_gather(std::int64_t rows, std::span<const std::int64_t> widths) const;
  void check_share(std::span<const std::int64_t> begins, std::span<const std::int64_t> widths) const;

  DeviceCommunicatorOptions options_;
  CommunicationStats stats_;

 private:
  std::string note_;
};

/// Reduces of at most this many doubles are summed by every rank of a host for itself. (Measured with 2 ranks on 2
/// cores and 4 on 2: above, reading less from other cores' caches is worth a second synchronisation.)
inline constexpr std::int64_t kOneShotLimit = 512;

std::unique_ptr<HostDeviceCommunicator> make_self_device(ParallelFor& parallel,
                                                         const DeviceCommunicatorOptions& options);
std::unique_ptr<HostDeviceCommunicator> make_mpi_device(Topology topology, ParallelFor& parallel,
                                                        const DeviceCommunicatorOptions& options);
std::unique_ptr<HostDeviceCommunicator> make_shm_device(Topology topology, std::shared_ptr<ShmWindow> window,
                                                        ParallelFor& parallel,
                                                        const DeviceCommunicatorOptions& options);

/// How the self-test reaches the memory that a communicator works on; its copies are done when they return.
struct DeviceCopies {
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
  std::function<void*(const std::shared_ptr<void>& memory)> address;
  std::function<void(void* to, const void* from, std::size_t bytes)> upload;
  std::function<void(void* to, const void* from, std::size_t bytes)> download;
};
DeviceCopies host_copies();

/// A known reduce of each kind and a known gather; Error(communication) on all ranks when one got a wrong result.
void self_test(Communicator& comm, DeviceCommunicator& device, const DeviceCommunicatorOptions& options,
               const DeviceCopies& copies);

/// make_host_device_communicator() with what tests pretend.
std::unique_ptr<DeviceCommunicator> make_host_device_communicator(Communicator& comm, ParallelFor& parallel,
                                                                  const DeviceCommunicatorOptions& options,
                                                                  const HostDeviceOverrides& overrides);

}  // namespace tpinfer
