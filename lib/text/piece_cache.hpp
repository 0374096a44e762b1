#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tpinfer {

/// Ids of pieces seen before. Full is full: the first pieces of a language are its common ones. Safe for several
/// threads.
class PieceCache {
 public:
  static constexpr std::size_t kMaxPiece = 64;  // bytes
  static constexpr std::size_t kMaxPieces = 20000;

  /// Appends the ids of `piece` when they are known.
  bool find(std::string_view piece, std::vector<std::int32_t>& ids) const {
    if (piece.size() > kMaxPiece) return false;
    const std::shared_lock lock(mutex_);
    const auto found = known_.find(piece);
    if (found == known_.end()) return false;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
    return true;
  }

  template <class Iterator>
  void add(std::string_view piece, Iterator begin, Iterator end) {
    if (piece.size() > kMaxPiece) return;
    const std::unique_lock lock(mutex_);
    if (known_.size() < kMaxPieces) known_.try_emplace(std::string(piece), begin, end);
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };

  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::vector<std::int32_t>, Hash, std::equal_to<>> known_;
};

}  // namespace tpinfer
