#include "memory.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cuda_emulation {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlign = 256;
constexpr std::size_t kGuarded = 100;  // more guard pages would make opening and closing slow
constexpr std::size_t kPoisoned = std::size_t{4} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

DeviceMemory::DeviceMemory(std::size_t total) : reserved_(round_up(2 * total + (std::size_t{1} << 30), kPage)) {
  void* range = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    std::fprintf(stderr, "CUDA emulation: no address range of %zu bytes for a GPU\n", reserved_);
    std::abort();
  }
  base_ = static_cast<std::byte*>(range);
  madvise(base_, reserved_, MADV_DONTDUMP);
  madvise(base_, reserved_, MADV_NOHUGEPAGE);
}

DeviceMemory::~DeviceMemory() { munmap(base_, reserved_); }

std::byte* DeviceMemory::find_room(std::size_t bytes) const {
  std::byte* place = base_;
  for (const auto& [pages, allocation] : allocations_) {
    if (static_cast<std::size_t>(pages - place) >= bytes) return place;
    place = pages + allocation.page_bytes;
  }
  return place + bytes <= base_ + reserved_ ? place : nullptr;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t usable = round_up(bytes, kPage);
  const std::size_t guard = allocations_.size() < kGuarded ? kPage : 0;
  std::byte* pages = find_room(usable + guard);
  if (!pages) return nullptr;
  Allocation allocation{pages + (usable - round_up(bytes, kAlign)), bytes, pages, usable + guard};
  add_extent(pages, usable);
  if (!open_) mprotect(pages, usable, PROT_READ | PROT_WRITE);
  const std::size_t poisoned = bytes < kPoisoned ? bytes : kPoisoned;
  std::memset(allocation.data, 0xFF, poisoned);
  std::memset(allocation.data + (bytes - poisoned), 0xFF, poisoned);
  mprotect(pages, usable, open_ ? PROT_READ | PROT_WRITE : PROT_NONE);
  allocations_[pages] = allocation;
  return allocation.data;
}

std::size_t DeviceMemory::release(void* data) {
  const Allocation* found = find(data);
  if (!found || found->data != data) return 0;
  const Allocation allocation = *found;
  const std::size_t usable = round_up(allocation.bytes, kPage);
  madvise(allocation.pages, usable, MADV_DONTNEED);
  mprotect(allocation.pages, usable, PROT_NONE);
  remove_extent(allocation.pages, usable);
  allocations_.erase(allocation.pages);
  return allocation.bytes;
}

const Allocation* DeviceMemory::find(const void* address) const {
  auto* place = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  auto next = allocations_.upper_bound(place);
  if (next == allocations_.begin()) return nullptr;
  const Allocation& allocation = (--next)->second;
  return place >= allocation.data && place < allocation.data + allocation.bytes ? &allocation : nullptr;
}

bool DeviceMemory::contains(const void* address) const noexcept {
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_);
  return offset < reserved_;
}

void DeviceMemory::add_extent(std::byte* begin, std::size_t bytes) {
  std::byte* end = begin + bytes;
  const auto next = extents_.lower_bound(begin);
  if (next != extents_.end() && next->first == end) {
    end = next->second;
    extents_.erase(next);
  }
  const auto after = extents_.upper_bound(begin);
  if (after != extents_.begin() && std::prev(after)->second == begin)
    std::prev(after)->second = end;
  else
    extents_[begin] = end;
}

void DeviceMemory::remove_extent(std::byte* begin, std::size_t bytes) {
  const auto at = std::prev(extents_.upper_bound(begin));
  std::byte* const first = at->first;
  std::byte* const last = at->second;
  extents_.erase(at);
  if (first < begin) extents_[first] = begin;
  if (begin + bytes < last) extents_[begin + bytes] = last;
}

void DeviceMemory::protect(int protection) const {
  for (const auto& [begin, end] : extents_) mprotect(begin, static_cast<std::size_t>(end - begin), protection);
}

void DeviceMemory::open() {
  if (!open_) protect(PROT_READ | PROT_WRITE);
  open_ = true;
}

void DeviceMemory::close() {
  if (open_) protect(PROT_NONE);
  open_ = false;
}

void DeviceMemory::fill(std::byte* data, int value, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t first = round_up(start, kPage) - start;
  if (value != 0 || bytes < first + 64 * kPage) {
    std::memset(data, value, bytes);
    return;
  }
  const std::size_t whole = (bytes - first) / kPage * kPage;
  std::memset(data, 0, first);
  madvise(data + first, whole, MADV_DONTNEED);
  std::memset(data + first + whole, 0, bytes - first - whole);
}

}  // namespace cuda_emulation
