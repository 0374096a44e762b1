#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace tpinfer {

/// What a plan, made without a device, needs to know of the CPU backend's memory.

/// Bytes of a block of the cache, all layers, with the padding of the CPU's layout.
std::uint64_t cpu_kv_block_bytes(const KvSpec& spec);

/// What the working memory of the operations depends on.
struct CpuWork {
  AttentionHeads heads;
  DType cache = DType::float32;
  std::int64_t most_context = 0;   ///< positions of one sequence
  std::int64_t widest_inputs = 0;  ///< input channels of the widest product
  bool mixture = false;
  int threads = 1;
};

/// Bytes that the operations hold between and during calls, at the most.
std::uint64_t cpu_working_bytes(const CpuWork& work);
/// Attention's part of them.
std::uint64_t cpu_attention_bytes(const CpuWork& work);

}  // namespace tpinfer
