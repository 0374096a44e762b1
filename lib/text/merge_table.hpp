#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpinfer {

/// What two neighbouring tokens merge to, and how early.
struct Merge {
  std::uint32_t rank;
  std::int32_t result;
};

/// Pair of ids -> Merge: a hash table with open addressing, made for the one question that BPE asks millions of times.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges = 0) {
    std::size_t slots = 16;
    while (slots < 2 * merges) slots *= 2;
    slots_.resize(slots);
  }

  /// A pair that is there already gets the new merge, as in the reference.
  void set(std::int32_t left, std::int32_t right, Merge merge) {
    Slot& slot = slots_[index(key(left, right))];
    slot = {key(left, right), merge};
  }

  const Merge* find(std::int32_t left, std::int32_t right) const {
    const Slot& slot = slots_[index(key(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // ids are never negative, so no pair has this key
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge{};
  };

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
  }
  // The slot of the key, or the free one where it belongs.
  std::size_t index(std::uint64_t wanted) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>((wanted * 0x9E3779B97F4A7C15U) >> 24) & mask;
    while (slots_[at].key != kFree && slots_[at].key != wanted) at = (at + 1) & mask;
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace tpinfer
