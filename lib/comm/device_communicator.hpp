#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "comm/communicator.hpp"
#include "core/parallel_for.hpp"
#include "core/tensor.hpp"

namespace tpinfer {

struct CommunicationStats {
  std::uint64_t collectives = 0;
  std::uint64_t bytes = 0;         ///< sent by this rank's part
  double seconds = 0;              ///< spent in them, waiting included
  double wait_seconds = 0;         ///< of these, waiting for other ranks
  std::uint64_t beyond_exact = 0;  ///< totals at or above 2^25 in magnitude: the bitwise promise lapses for them
};

/// The collectives of the forward pass over the ranks of one tensor-parallel group: enqueued on the compute stream of
/// the backend whose memory they work on (on the CPU: done when the call returns).
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual std::string_view kind() const noexcept = 0;  ///< "self", "shm", "mpi", "shm+mpi", "nccl"

  /// Where this rank's partial sums of the next reduce() into `total` (float32) go: as many rows and columns, of the
  /// type in the options. May be another place after each reduce(), and `total` itself, so ask again each time.
  virtual Tensor partials(const Tensor& total) = 0;
  /// total = float(sum over ranks of partials), on every rank; `partials` is what partials(total) gave. float64 sums
  /// are exact (numerics), so the order of ranks is free; float32 ones are added as they are.
  virtual void reduce(const Tensor& partials, const Tensor& total) = 0;
  /// Rank 0 gets out [rows, sum of widths]: every rank's local [rows, widths[rank]] side by side. `out` is ignored
  /// elsewhere.
  virtual void gather_columns(const float* local, std::int64_t rows, std::span<const std::int64_t> widths,
                              float* out) = 0;

  /// Whether share_rows() is there: where the host samples.
  virtual bool shares_rows() const noexcept { return false; }
  /// What gather_columns() would give rank 0, its rows divided: every rank gets rows [begins[rank], begins[rank + 1])
  /// in `out`. `begins` [size + 1] ascends from 0 to the number of rows of `local`.
  virtual void share_rows(const float* local, std::span<const std::int64_t> begins,
                          std::span<const std::int64_t> widths, float* out);

  virtual CommunicationStats stats() const = 0;
  /// Why a slower transport than the best one was taken, a sentence for the log; empty when it was not.
  virtual std::string_view note() const noexcept { return {}; }

  /// After the backend was synchronised and before its results are used: Error(communication) when a collective that
  /// was enqueued has failed or was given up after the timeout.
  virtual void throw_if_failed() {}
  /// Whether its collectives may be captured in a graph of the device, which needs them to leave the host alone.
  virtual bool capturable() const noexcept { return false; }
  /// What was captured since the last call, for one launch of the graph.
  virtual CommunicationStats take_captured() { return {}; }
  /// A graph with these collectives was launched: counts and watches them.
  virtual void launched(const CommunicationStats& /*captured*/) {}
};

enum class Transport { automatic, shm, mpi, nccl };

struct DeviceCommunicatorOptions {
  std::int64_t most_partials = 0;              ///< elements that partials() must hold
  DType partials = DType::float64;             ///< their type: float64, or float32 for sums that need not be exact
  std::int64_t most_gathered = 0;              ///< floats of the largest local block of gather_columns on any rank
  Transport transport = Transport::automatic;  ///< automatic: shared memory inside a host, MPI between hosts
  double timeout = 300;                        ///< seconds that a collective may take before Error(communication)
};

/// Collective over `comm`. Ranks of one host reduce through a shared-memory window, hosts among each other by MPI.
/// Fails on all ranks alike, with Error(communication) that names what is missing (free space of /dev/shm, say);
/// Transport::automatic then falls back to MPI. Ends with a self-test: a known reduce and a known gather.
std::unique_ptr<DeviceCommunicator> make_host_device_communicator(Communicator& comm, ParallelFor& parallel,
                                                                  const DeviceCommunicatorOptions& options);

/// Bytes of shared memory that the window of `local_ranks` ranks of one host takes, all of them together.
std::uint64_t shared_window_bytes(int local_ranks, const DeviceCommunicatorOptions& options);

}  // namespace tpinfer
