#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tpinfer {

/// Ids of pieces seen before. Full is full: the first pieces of a language are its common ones. Safe for several
/// threads, which never wait for each other: an entry is written once and stays.
class PieceCache {
 public:
  static constexpr std::size_t kMaxPiece = 64;  // bytes
  static constexpr std::size_t kMaxPieces = 1U << 16;

  PieceCache() : slots_(kSlots) {}
  ~PieceCache() {
    for (const auto& slot : slots_) delete slot.load(std::memory_order_relaxed);
  }
  PieceCache(const PieceCache&) = delete;
  PieceCache& operator=(const PieceCache&) = delete;

  /// Appends the ids of `piece` when they are known.
  bool find(std::string_view piece, std::vector<std::int32_t>& ids) const {
    if (piece.size() > kMaxPiece) return false;
    const std::size_t hash = std::hash<std::string_view>()(piece);
    for (std::size_t at = hash;; ++at) {
      const Entry* entry = slots_[at % kSlots].load(std::memory_order_acquire);
      if (!entry) return false;
      if (entry->hash != hash || entry->piece != piece) continue;
      ids.insert(ids.end(), entry->ids.begin(), entry->ids.end());
      return true;
    }
  }

  template <class Iterator>
  void add(std::string_view piece, Iterator begin, Iterator end) {
    if (piece.size() > kMaxPiece || count_.load(std::memory_order_relaxed) >= kMaxPieces) return;
    if (count_.fetch_add(1, std::memory_order_relaxed) >= kMaxPieces) return;
    const std::size_t hash = std::hash<std::string_view>()(piece);
    auto entry = std::make_unique<Entry>(Entry{hash, std::string(piece), {begin, end}});
    for (std::size_t at = hash;; ++at) {
      Entry* other = nullptr;
      if (slots_[at % kSlots].compare_exchange_strong(other, entry.get(), std::memory_order_acq_rel)) {
        entry.release();  // NOLINT: the slot owns it now
        return;
      }
      if (other->piece == piece) return;  // another thread was faster
    }
  }

 private:
  struct Entry {
    std::size_t hash;
    std::string piece;
    std::vector<std::int32_t> ids;
  };

  static constexpr std::size_t kSlots = 2 * kMaxPieces;  // half of them stay free, so that searches end soon

  std::vector<std::atomic<Entry*>> slots_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace tpinfer
