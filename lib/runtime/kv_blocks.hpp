#pragma once

#include <cstdint>
#include <vector>

namespace tpinfer {

/// Which blocks of the paged KV cache are free: kept by rank 0, all ranks' caches have the same blocks.
class KvBlocks {
 public:
  explicit KvBlocks(std::int64_t blocks);

  std::int64_t total() const noexcept { return total_; }
  std::int64_t free() const noexcept { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t used() const noexcept { return total() - free(); }
  /// One free block; there must be one.
  std::int32_t take();
  /// Gives blocks back and empties the list.
  void give_back(std::vector<std::int32_t>& blocks);

 private:
  std::int64_t total_;
  std::vector<std::int32_t> free_;
};

}  // namespace tpinfer
