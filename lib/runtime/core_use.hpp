#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace tpinfer {

/// What a rank that computes on the CPU has of its host's processor.
struct CoreUse {
  std::string host;
  std::int32_t threads = 0;                  ///< that the rank computes with
  std::vector<std::int32_t> cores = {};      ///< that it may use, ascending
  std::vector<std::int32_t> launchers = {};  ///< that mpirun on this host may use; empty: not known
};

/// That of this process.
CoreUse own_core_use(const std::string& host, int threads);

std::vector<std::byte> encode(const CoreUse& use);
CoreUse decode_core_use(std::span<const std::byte> bytes);

/// What is wrong with the ranks' use of their hosts' cores, a sentence for each host: cores that mpirun's binding
/// leaves idle, or more threads than cores. `asked`: parallel.threads of the job.
std::vector<std::string> core_complaints(std::span<const CoreUse> ranks, const std::optional<std::int64_t>& asked);

/// Collective: the complaints about all ranks, on rank 0.
std::vector<std::string> core_complaints(Communicator& comm, const CoreUse& own,
                                         const std::optional<std::int64_t>& asked);

}  // namespace tpinfer
