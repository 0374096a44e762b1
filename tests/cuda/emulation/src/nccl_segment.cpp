#include "nccl_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "world.hpp"

namespace cuda_emulation {

struct NcclSegment::Layout {
  struct alignas(64) Line {
    std::atomic<std::uint64_t> round;
    std::atomic<int> joined;
    int gpu;
    Claim claims[2];
  };
  struct alignas(64) Box {
    std::atomic<std::uint64_t> written;
    std::atomic<std::uint64_t> read;
    std::uint64_t bytes;
  };
  Line lines[kMostRanks];
  Box boxes[kMostRanks][kMostRanks];
};

NcclSegment::NcclSegment(const std::string& name, int ranks, int rank, int gpu)
    : name_(name), ranks_(ranks), rank_(rank) {
  const int file = shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600);
  // A new segment is all zeros, which is its right beginning, so it does not matter who comes first.
  if (file < 0 || ftruncate(file, static_cast<off_t>(size())) != 0) die("NCCL: no shared memory " + name_);
  void* memory = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) die("NCCL: cannot map shared memory");
  layout_ = static_cast<Layout*>(memory);
  layout_->lines[rank_].gpu = gpu;
  layout_->lines[rank_].joined.store(1, std::memory_order_release);
}

NcclSegment::~NcclSegment() {
  shm_unlink(name_.c_str());
  munmap(layout_, size());
}

std::size_t NcclSegment::size() const noexcept {
  const auto n = static_cast<std::size_t>(ranks_);
  return sizeof(Layout) + n * (2 + n) * kChunk;
}

std::byte* NcclSegment::round_chunk(std::uint64_t round, int rank) const noexcept {
  return reinterpret_cast<std::byte*>(layout_ + 1) + (static_cast<std::size_t>(rank) * 2 + round % 2) * kChunk;
}

std::byte* NcclSegment::message(int from, int to) const noexcept {
  return reinterpret_cast<std::byte*>(layout_ + 1) + static_cast<std::size_t>(ranks_ * 2 + from * ranks_ + to) * kChunk;
}

bool NcclSegment::complete() const noexcept {
  for (int rank = 0; rank < ranks_; ++rank)
    if (layout_->lines[rank].joined.load(std::memory_order_acquire) == 0) return false;
  shm_unlink(name_.c_str());  // nobody else comes, and nothing stays behind
  return true;
}

bool NcclSegment::same_gpu_twice() const noexcept {
  for (int a = 0; a < ranks_; ++a)
    for (int b = 0; b < a; ++b)
      if (layout_->lines[a].gpu == layout_->lines[b].gpu) return true;
  return false;
}

void NcclSegment::post(std::uint64_t round, const void* data, std::size_t bytes, const Claim& claim) {
  if (bytes > 0) std::memcpy(round_chunk(round, rank_), data, bytes);
  layout_->lines[rank_].claims[round % 2] = claim;
  layout_->lines[rank_].round.store(round, std::memory_order_release);
}

bool NcclSegment::arrived(std::uint64_t round) const noexcept {
  for (int rank = 0; rank < ranks_; ++rank)
    if (layout_->lines[rank].round.load(std::memory_order_acquire) < round) return false;
  return true;
}

const std::byte* NcclSegment::chunk(std::uint64_t round, int rank) const noexcept { return round_chunk(round, rank); }

const NcclSegment::Claim& NcclSegment::claim(std::uint64_t round, int rank) const noexcept {
  return layout_->lines[rank].claims[round % 2];
}

bool NcclSegment::try_send(int to, const void* data, std::size_t bytes) {
  Layout::Box& box = layout_->boxes[rank_][to];
  const std::uint64_t written = box.written.load(std::memory_order_relaxed);
  if (box.read.load(std::memory_order_acquire) != written) return false;
  std::memcpy(message(rank_, to), data, bytes);
  box.bytes = bytes;
  box.written.store(written + 1, std::memory_order_release);
  return true;
}

bool NcclSegment::try_receive(int from, void* data, std::size_t bytes) {
  Layout::Box& box = layout_->boxes[from][rank_];
  const std::uint64_t read = box.read.load(std::memory_order_relaxed);
  if (box.written.load(std::memory_order_acquire) == read) return false;
  if (box.bytes != bytes)
    die("NCCL: rank " + std::to_string(rank_) + " receives " + std::to_string(bytes) + " bytes where rank " +
        std::to_string(from) + " sends " + std::to_string(box.bytes));
  std::memcpy(data, message(from, rank_), bytes);
  box.read.store(read + 1, std::memory_order_release);
  return true;
}

}  // namespace cuda_emulation
