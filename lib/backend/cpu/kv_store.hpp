#pragma once

#include "backend/backend.hpp"
#include "backend/cpu/huge_memory.hpp"

namespace tpinfer {

/// Positions side by side in a tile: the lanes of the score kernel.
inline constexpr std::int64_t kTilePositions = 16;

/// Where a K or V element lies, in bytes from the start of one layer.
///
/// [block][KV head][tile of 16 positions], and a tile is first K, then V, so that a decode step reads each tile in one
/// run:
///   K float32, float16: [channel][16 positions]          bfloat16: [channel pair][16 positions][2]
///   V float32, float16: [position][channels padded]      bfloat16: [position pair][channels padded][2]
/// Channels of V are padded with zeros to a multiple of 16, those of K in bfloat16 to an even number.
struct KvLayout {
  std::int64_t step = 1;     ///< elements that lie together: 2 in bfloat16
  std::int64_t element = 4;  ///< bytes
  std::int64_t head_dim = 0;
  std::int64_t padded_dim = 0;    ///< head_dim rounded up to 16
  std::int64_t key_dim = 0;       ///< head_dim rounded up to `step`
  std::int64_t block_size = 0;    ///< positions
  std::int64_t value_offset = 0;  ///< of V in a tile
  std::int64_t tile_bytes = 0;
  std::int64_t head_bytes = 0;
  std::int64_t block_bytes = 0;
  std::int64_t layer_bytes = 0;

  KvLayout() = default;
  explicit KvLayout(const KvSpec& spec);

  std::int64_t tile(std::int64_t block, std::int64_t head, std::int64_t offset_in_block) const noexcept {
    return block * block_bytes + head * head_bytes + offset_in_block / kTilePositions * tile_bytes;
  }
  /// Bytes from the start of a tile to an element of K or V.
  std::int64_t key(std::int64_t channel, std::int64_t lane) const noexcept {
    return ((channel / step * kTilePositions + lane) * step + channel % step) * element;
  }
  std::int64_t value(std::int64_t channel, std::int64_t lane) const noexcept {
    return value_offset + ((lane / step * padded_dim + channel) * step + lane % step) * element;
  }
};

class CpuKvStore final : public KvStore {
 public:
  /// All zero. Error(internal) for a block size or type that a cache cannot have.
  explicit CpuKvStore(const KvSpec& spec);
  const KvLayout& layout() const noexcept { return layout_; }
  std::byte* layer(std::int64_t layer) const noexcept { return memory_.data() + layer * layout_.layer_bytes; }
  std::size_t bytes() const noexcept { return memory_.bytes(); }

 private:
  KvLayout layout_;
  HugeMemory memory_;
};

}  // namespace tpinfer
