#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "backend/factory.hpp"
#include "comm/communicator.hpp"
#include "comm/device_communicator.hpp"
#include "output/run_result.hpp"
#include "runtime/core_use.hpp"
#include "runtime/engine.hpp"
#include "runtime/gpu_choice.hpp"
#include "runtime/setup.hpp"
#include "runtime/weight_loader.hpp"
#include "shard/common_parts.hpp"

namespace tpinfer {

/// Cores that this process may use.
int usable_cores();
/// Threads for each of `local_ranks` ranks when the job does not say: its share of the cores, at least one.
int default_threads(int local_ranks);

/// One rank of a run: its device, weights, cache and forward pass, and the record of what it did.
class RankWorker {
 public:
  /// `world`: all ranks; `group`: those of this rank's replica; `seat`: this rank's GPU, null: on the CPU.
  RankWorker(const RunSetup& setup, Communicator& world, Communicator& group, int replica, const GpuSeat* seat);

  /// Collective: lets the ranks of each host share the reading of row-parallel tensors, where /dev/shm has room.
  void share_reading(Communicator& comm);
  /// Reads this rank's slices. Error(internal) when it owns more than 1.1 times what was planned; names the classes.
  void load(const LoadProgress& progress);
  /// Of the loading.
  const LoadReport& loaded() const { return report_; }
  std::uint64_t owned_bytes() const { return weights_->bytes(); }
  /// Collective: compares what several ranks hold alike (replicated tensors, K and V heads that ranks share);
  /// Error(input) with tensor and ranks when one read other bytes.
  void compare_replicated(Communicator& comm) const;
  /// Of all that this rank holds like others: the same for the ranks of all replicas that have the same place.
  std::uint64_t common_checksum() const;
  /// Collective: collectives of the forward pass, cache and buffers.
  void build(Communicator& comm);

  Transformer& transformer() { return *transformer_; }
  ParallelFor& parallel() { return *parallel_; }
  EngineTimes& times() { return times_; }
  CommunicationStats communication() const { return device_comm_->stats(); }
  /// Why the collectives fell back to MPI; empty when they did not.
  std::string_view transport_note() const { return device_comm_->note(); }
  /// Of a rank on the CPU: its threads, and the cores that it may use.
  CoreUse core_use() const { return own_core_use(row_.host, parallel_->threads()); }
  /// Notes the highest memory so far, at most every 50 ms; called after each step.
  void watch_memory();
  /// The record of this rank; `communication` and times as they stand.
  RankRow finish();

 private:
  void make_backend(int local_ranks, const GpuSeat* seat);
  void note_memory(std::size_t phase);
  void check_owned() const;
  [[noreturn]] void fail_common(const CommonPart& part, int rank) const;
  std::uint64_t planned() const { return setup_.plan.per_rank[static_cast<std::size_t>(rank_)].weights_bytes; }

  const RunSetup& setup_;
  int rank_;
  bool on_planning_host_;  ///< rank 0's
  std::unique_ptr<Backend> backend_;
  ParallelFor* parallel_ = nullptr;  ///< the host's threads, of backend_
  GpuBackend* gpu_ = nullptr;        ///< backend_, when it is one
  int gpu_index_ = 0;
  std::unique_ptr<DeviceCommunicator> device_comm_;
  std::unique_ptr<RankWeights> weights_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<HostExchange> exchange_;  ///< while loading
  LoadReport report_;
  EngineTimes times_;
  RankRow row_;
  std::chrono::steady_clock::time_point last_look_;
};

}  // namespace tpinfer
