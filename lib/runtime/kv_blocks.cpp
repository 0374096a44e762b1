#include "runtime/kv_blocks.hpp"

#include "core/error.hpp"

namespace tpinfer {

KvBlocks::KvBlocks(std::int64_t blocks) : total_(blocks) {
  for (std::int64_t b = blocks; b > 0; --b) free_.push_back(static_cast<std::int32_t>(b - 1));
}

std::int32_t KvBlocks::take() {
  if (free_.empty()) throw Error(ExitCode::internal, "the KV cache has no free block although one was promised");
  const std::int32_t block = free_.back();
  free_.pop_back();
  return block;
}

void KvBlocks::give_back(std::vector<std::int32_t>& blocks) {
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  blocks.clear();
}

}  // namespace tpinfer
