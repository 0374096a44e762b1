#include "backend/cpu/huge_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

void MappedMemoryTraits::close(Handle data) const noexcept { ::munmap(data, bytes); }

HugeMemory::HugeMemory(std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
  // A huge page needs an aligned start; what the alignment leaves over goes back at once.
  const std::size_t slack = size >= kHugePage ? kHugePage : 0;
  void* mapped = ::mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    throw Error(ExitCode::does_not_fit, fmt::format("cannot get {} bytes of memory: {}", bytes, system_message(errno)),
                "use more ranks or a smaller memory.kv_cache");
  auto* start = static_cast<std::byte*>(mapped);
  if (slack != 0) {
    const std::size_t head = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
    if (head != 0) ::munmap(start, head);
    if (head != slack) ::munmap(start + head + size, slack - head);
    start += head;
    ::madvise(start, size, MADV_HUGEPAGE);  // only a wish: without huge pages it is merely slower
  }
  handle_ = UniqueHandle<MappedMemoryTraits>(start, {size});
}

}  // namespace tpinfer
