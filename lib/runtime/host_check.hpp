#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/factory.hpp"
#include "memory/machine_facts.hpp"
#include "memory/machine_memory.hpp"
#include "runtime/rank_survey.hpp"

namespace tpinfer {

/// What of the program and its environment bears on a host.
struct HostUse {
  std::string forced_kernels = {};  ///< TPINFER_ISA; empty: not set
  KernelSet best = KernelSet::scalar;
  int usable_cores = 1;
  int ranks = 1;  ///< of this host
  UsableMemory memory = {};
  bool cuda = false;             ///< the build has it
  std::string cuda_reason = {};  ///< why no GPU can be used
  std::size_t gpus_seen = 0;
  std::string cuda_visible_devices = {};
};

/// Kernels, cores, huge pages, /dev/shm, memory, limits and GPUs of one host: a line each.
std::vector<Advice> check_host(const MachineFacts& facts, const HostUse& use);

}  // namespace tpinfer
