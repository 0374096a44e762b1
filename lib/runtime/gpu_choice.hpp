#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/device_choice.hpp"
#include "comm/communicator.hpp"
#include "job/job.hpp"

namespace tpinfer {

/// What one rank could compute on.
struct GpuSeat {
  std::string host;
  bool sees_gpu = false;
  GpuFacts gpu;                 ///< the one that it takes
  std::string why_none;         ///< when it sees none
  std::vector<int> sharers;     ///< ranks on this GPU, itself included
  std::int32_t neighbours = 1;  ///< ranks of this host whose GPUs are at the same NUMA node, itself included
};

/// Where the ranks of a job would compute, the same on every rank.
class GpuChoice {
 public:
  /// Collective. Ranks of a host choose together: one GPU each as far as there are enough, whatever part of them each
  /// rank sees (CUDA_VISIBLE_DEVICES, --gpus-per-task, --gpus-per-node).
  static GpuChoice survey(Communicator& comm);

  /// What the job asks for: true for GPUs. `automatic` is the GPUs when every rank sees one. Error(usage) when a GPU is
  /// asked for that is not there, and when ranks would share one without the job's leave (parallel.share_gpus); naming
  /// ranks, host and GPU.
  bool decide(const ParallelJob& parallel) const;

  const std::vector<GpuSeat>& seats() const noexcept { return seats_; }
  const GpuSeat& seat(int rank) const { return seats_.at(static_cast<std::size_t>(rank)); }
  bool shared() const noexcept;
  /// Bytes of device memory that each rank may use: `utilization` of its GPU without what is used already; ranks that
  /// share one get equal parts.
  std::vector<std::uint64_t> budgets(double utilization) const;

 private:
  std::vector<GpuSeat> seats_;
};

}  // namespace tpinfer
