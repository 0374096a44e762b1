#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpinfer {

/// A GPU as this process sees it.
struct GpuFacts {
  std::int32_t index = 0;  ///< CUDA's number for it, under this process's CUDA_VISIBLE_DEVICES
  std::string name;
  std::string uuid;             ///< "GPU-5e3c...", as nvidia-smi spells it: the same in every process
  std::string pci;              ///< "0000:3b:00.0"
  std::int32_t numa_node = -1;  ///< of the host's memory near it; -1: not known
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  ///< now, before this process takes any
};

/// Every GPU that CUDA shows to this process, in its order; none in a build without CUDA, without a driver or where
/// CUDA_VISIBLE_DEVICES hides them. Free memory comes from NVML, so that no GPU has to be started for it; where NVML is
/// not there, from CUDA.
std::vector<GpuFacts> survey_gpus();

/// Which of its GPUs each rank of one host takes: uuids[rank] are those that the rank sees, in its order. As many ranks
/// as possible get one of their own, the first in their order that allows this; the others share, evenly. -1 for a rank
/// that sees none.
std::vector<int> assign_gpus(const std::vector<std::vector<std::string>>& uuids);

/// Binds the calling thread, and the threads and memory that it makes from now on, to the processors near `numa_node`,
/// as far as it may use them now; nothing where the node is not known or none of its processors may be used. -> whether
/// it is bound
bool bind_near(int numa_node);

}  // namespace tpinfer
