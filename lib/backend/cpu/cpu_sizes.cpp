#include "backend/cpu/cpu_sizes.hpp"

#include "backend/cpu/attention.hpp"
#include "backend/cpu/kv_store.hpp"
#include "backend/cpu/mixture.hpp"
#include "backend/cpu/product.hpp"

namespace tpinfer {

std::uint64_t cpu_kv_block_bytes(const KvSpec& spec) {
  return static_cast<std::uint64_t>(KvLayout(spec).block_bytes * spec.layers);
}

std::uint64_t cpu_attention_bytes(const CpuWork& work) {
  if (work.heads.kv_heads == 0) return 0;  // a rank without heads
  return CpuAttention::most_bytes(work.heads, work.cache, work.most_context, work.threads);
}

std::uint64_t cpu_working_bytes(const CpuWork& work) {
  const std::uint64_t thread =
      Product::most_scratch_bytes(work.widest_inputs) + (work.mixture ? CpuMixture::kNearBytes : 0);
  return cpu_attention_bytes(work) + static_cast<std::uint64_t>(work.threads) * thread;
}

}  // namespace tpinfer
