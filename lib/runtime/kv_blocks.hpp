#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpinfer {

/// Hash over all tokens of a sequence up to some block border; equal chains mean equal K and V.
using PrefixChain = std::uint64_t;

/// Which blocks of the paged KV cache are free, which are shared, and what they hold: kept by rank 0 of a group, all
/// ranks' caches have the same blocks.
///
/// A block whose content is known stays findable after its last user has gone, until it is taken for something else:
/// first the longest unused of those that nobody ever shared, then of those that were shared. No operation allocates.
class KvBlocks {
 public:
  /// Fewest common tokens for which find_partial() is worth a copy.
  static constexpr std::int64_t kLeastPartial = 4;
  static constexpr PrefixChain kRoot = 0;

  KvBlocks(std::int64_t blocks, std::int64_t block_size);

  std::int64_t total() const noexcept { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t free() const noexcept { return free_; }
  std::int64_t used() const noexcept { return total() - free_; }
  std::int32_t users(std::int32_t block) const { return at(block).users; }

  /// A new step: what was appended before it may be copied from now on.
  void begin_step() noexcept { ++step_; }
  /// The block that take() gives next, or after it has given `taken`, when none is given back meanwhile; -1: none.
  std::int32_t upcoming(std::int32_t taken = -1) const;
  /// A block with one user and unknown content; there must be a free one.
  std::int32_t take();
  /// One more user of a block that find() gave.
  void share(std::int32_t block);
  /// One user less; without users the block is free.
  void release(std::int32_t block);

  /// Notes that a block of a sequence, which continues `before` (the chain of all blocks in front of it), gets one more
  /// token in this step. A full block becomes findable at once, its beginning with the next step.
  void append(std::int32_t block, PrefixChain before, std::int32_t token);
  /// Notes that `block` was given the first `count` tokens of `from` by a copy.
  void copied(std::int32_t block, PrefixChain before, std::int32_t from, std::int64_t count);
  /// Chain behind a full block.
  PrefixChain chain(std::int32_t block) const { return at(block).chain; }

  /// The full block that holds `tokens` (block_size of them) behind `before`.
  std::optional<std::int32_t> find(PrefixChain before, std::span<const std::int32_t> tokens) const;
  struct Partial {
    std::int32_t block = -1;
    std::int64_t tokens = 0;  ///< at the block's beginning; 0: none found
  };
  /// A block behind `before` that begins as `tokens` does, with the most tokens in common, settled before this step.
  Partial find_partial(PrefixChain before, std::span<const std::int32_t> tokens) const;

 private:
  struct Block {
    std::int32_t users = 0;
    std::int32_t filled = 0;              ///< tokens known
    std::int32_t settled = 0;             ///< of these, before step `step`
    std::int64_t step = 0;                ///< of the last append
    PrefixChain before = kRoot;           ///< valid when filled > 0
    PrefixChain chain = kRoot;            ///< valid when full
    bool shared = false;                  ///< had several users, or was found again
    std::int32_t next_full = -1;          ///< in its bucket of full_
    std::int32_t next_begin = -1;         ///< in its bucket of begins_
    std::int32_t older = -1, newer = -1;  ///< in its list of free blocks
  };
  struct FreeList {
    std::int32_t oldest = -1, newest = -1;
  };

  const Block& at(std::int32_t block) const { return blocks_[static_cast<std::size_t>(block)]; }
  Block& at(std::int32_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  std::span<std::int32_t> tokens_of(std::int32_t block) {
    return {tokens_.data() + block * block_size_, static_cast<std::size_t>(block_size_)};
  }
  std::span<const std::int32_t> tokens_of(std::int32_t block) const {
    return {tokens_.data() + block * block_size_, static_cast<std::size_t>(block_size_)};
  }
  std::size_t full_bucket(PrefixChain chain) const { return static_cast<std::size_t>(chain) & mask_; }
  std::size_t begin_bucket(PrefixChain before, std::span<const std::int32_t> tokens) const;
  FreeList& list_of(const Block& block) { return free_lists_[block.shared ? 1 : 0]; }
  void unlink(std::int32_t block);
  void forget(std::int32_t block);
  void index_begin(std::int32_t block);
  void index_full(std::int32_t block);

  std::int64_t block_size_;
  std::int64_t step_ = 1;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> tokens_;  ///< [blocks, block_size]
  std::int64_t free_ = 0;
  FreeList free_lists_[2];            ///< never shared; shared
  std::size_t mask_ = 0;              ///< buckets - 1
  std::vector<std::int32_t> full_;    ///< by chain: first full block
  std::vector<std::int32_t> begins_;  ///< by chain in front and first tokens: first block
};

}  // namespace tpinfer
