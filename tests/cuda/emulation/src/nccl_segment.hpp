#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_emulation {

/// Shared memory of the ranks of one communicator.
class NcclSegment {
 public:
  static constexpr int kMostRanks = 16;
  static constexpr std::size_t kChunk = 64 << 10;

  /// What a rank says of the round of a collective that it is in, so that others can see that they mean the same.
  struct Claim {
    int kind = 0, type = 0, root = 0;
    std::uint64_t count = 0;
    bool operator==(const Claim&) const = default;
  };

  /// Makes the segment or joins it: whoever comes first makes it. `gpu`: the number of this rank's GPU on the host.
  NcclSegment(const std::string& name, int ranks, int rank, int gpu);
  ~NcclSegment();
  NcclSegment(const NcclSegment&) = delete;
  NcclSegment& operator=(const NcclSegment&) = delete;

  bool complete() const noexcept;  ///< all ranks have joined
  /// Two ranks with the same GPU; only when complete.
  bool same_gpu_twice() const noexcept;

  /// Rounds are numbered from 1. post() offers up to kChunk bytes; arrived() tells whether all ranks have; then
  /// chunk() is what each of them offered, until the next round but one.
  void post(std::uint64_t round, const void* data, std::size_t bytes, const Claim& claim);
  bool arrived(std::uint64_t round) const noexcept;
  const std::byte* chunk(std::uint64_t round, int rank) const noexcept;
  const Claim& claim(std::uint64_t round, int rank) const noexcept;

  /// One message of at most kChunk bytes at a time between two ranks.
  bool try_send(int to, const void* data, std::size_t bytes);
  /// -> true when a message was there; it must have `bytes` bytes.
  bool try_receive(int from, void* data, std::size_t bytes);

 private:
  struct Layout;
  std::size_t size() const noexcept;
  std::byte* round_chunk(std::uint64_t round, int rank) const noexcept;
  std::byte* message(int from, int to) const noexcept;

  std::string name_;
  int ranks_;
  int rank_;
  Layout* layout_ = nullptr;
};

}  // namespace cuda_emulation
