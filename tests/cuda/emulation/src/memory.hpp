#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace cuda_emulation {

struct Allocation {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::byte* pages = nullptr;  ///< first page
  std::size_t page_bytes = 0;
};

/// The memory of one emulated GPU: an address range of its own that may be touched only between open() and close(),
/// that is, while device work runs. Each allocation ends at the end of a page; behind the first ones of them lies a
/// page that is never accessible.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t total);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Null when no address range is left; the caller counts bytes. Filled with bytes 0xFF (not a number), as far as it
  /// is not large.
  void* allocate(std::size_t bytes);
  /// -> bytes that were allocated there; 0: it is not the start of an allocation.
  std::size_t release(void* data);
  /// The allocation that `address` lies in, or null.
  const Allocation* find(const void* address) const;
  bool contains(const void* address) const noexcept;
  std::size_t live() const noexcept { return allocations_.size(); }

  void open();
  void close();
  /// Zeroes whole pages by giving them back where that is quicker.
  static void fill(std::byte* data, int value, std::size_t bytes);

 private:
  void protect(int protection) const;
  void add_extent(std::byte* begin, std::size_t bytes);
  void remove_extent(std::byte* begin, std::size_t bytes);
  std::byte* find_room(std::size_t bytes) const;

  std::byte* base_ = nullptr;
  std::size_t reserved_ = 0;
  bool open_ = false;
  std::map<std::byte*, Allocation> allocations_;  ///< by first page
  std::map<std::byte*, std::byte*> extents_;      ///< begin -> end of adjacent accessible pages
};

}  // namespace cuda_emulation
