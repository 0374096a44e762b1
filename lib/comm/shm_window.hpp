#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "comm/communicator.hpp"
#include "core/file_handle.hpp"
#include "core/unique_handle.hpp"

namespace tpinfer {

struct MappingTraits {
  using Handle = std::byte*;
  std::size_t length = 0;
  static Handle empty() noexcept { return nullptr; }
  void close(Handle address) const noexcept;
};

struct WindowShape {
  int ranks = 1;  ///< of this host
  std::size_t partial_bytes = sizeof(double);
  std::int64_t most_partials = 0;   ///< a rank
  std::int64_t small_partials = 0;  ///< of a reduce that has two buffers
  std::int64_t most_gathered = 0;   ///< floats a rank
};

/// Memory that the ranks of one host share. Nothing of it has a name once it is made, so that nothing is left behind
/// however the ranks end.
///
/// Each rank has two views of its partial sums. They differ in the first `small_partials` doubles and share the rest:
/// a small reduce may be read by slow ranks while the next one is written to the other view, a large one ends with
/// all ranks having read it, and needs no second buffer.
class ShmWindow {
 public:
  /// What a rank tells the others: how far it is, and the size that it works on (one slot for each of the last ticks).
  struct alignas(128) Line {
    std::atomic<std::uint64_t> tick;
    std::array<std::atomic<std::int64_t>, 4> size;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  /// Collective over `comm`, whose ranks on this host are those of `local`. Throws the same Error(communication) on
  /// all of `comm`. pretended_free: bytes that /dev/shm is taken to have free (for tests).
  static std::shared_ptr<ShmWindow> make(Communicator& comm, Communicator& local, const WindowShape& shape,
                                         std::optional<std::uint64_t> pretended_free = {});

  /// Bytes of memory on a host with a window of this shape.
  static std::size_t bytes_for(const WindowShape& shape) { return ShmWindow(shape).bytes(); }

  Line& line(int rank) const noexcept { return reinterpret_cast<Line*>(base_.get())[rank]; }
  float* result() const noexcept { return reinterpret_cast<float*>(base_.get() + head_bytes_); }
  /// view: 0 or 1.
  std::byte* partials(int rank, int view) const noexcept {
    return rank_base(rank) + static_cast<std::size_t>(view) * (small_bytes_ + bulk_bytes_);
  }
  float* gathered(int rank) const noexcept {
    return reinterpret_cast<float*>(rank_base(rank) + 2 * (small_bytes_ + bulk_bytes_));
  }
  std::size_t bytes() const noexcept { return common_bytes() + static_cast<std::size_t>(ranks_) * rank_file_bytes(); }

 private:
  explicit ShmWindow(const WindowShape& shape);
  void allocate_part(int fd, int rank) const;
  void map(int fd);

  std::size_t common_bytes() const noexcept { return head_bytes_ + result_bytes_; }
  // in the file: small part of view 0, of view 1, bulk, gathered
  std::size_t rank_file_bytes() const noexcept { return 2 * small_bytes_ + bulk_bytes_ + gathered_bytes_; }
  // in memory: view 0 (small, bulk), view 1 (small, bulk), gathered
  std::size_t rank_map_bytes() const noexcept { return 2 * (small_bytes_ + bulk_bytes_) + gathered_bytes_; }
  std::byte* rank_base(int rank) const noexcept {
    return base_.get() + common_bytes() + static_cast<std::size_t>(rank) * rank_map_bytes();
  }

  int ranks_;
  std::size_t head_bytes_, result_bytes_, small_bytes_, bulk_bytes_, gathered_bytes_;
  UniqueHandle<MappingTraits> base_;
};

}  // namespace tpinfer
