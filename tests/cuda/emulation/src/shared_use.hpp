#pragma once

#include <atomic>
#include <cstdint>

namespace cuda_emulation {

/// What processes tell each other of their use of memory: bytes by number of the GPU on the host.
struct SharedUse {
  std::atomic<std::uint64_t> bytes[64];
};
/// The file that TPINFER_EMULATION_STATE names, mapped; null without one.
SharedUse* map_shared_use();

}  // namespace cuda_emulation
