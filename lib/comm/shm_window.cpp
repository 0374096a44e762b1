#include "comm/shm_window.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "core/units.hpp"

namespace tpinfer {
namespace {

constexpr std::string_view kWhere = "shared-memory window";

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

[[noreturn]] void fail(std::string_view what, int number) {
  throw Error(ExitCode::communication,
              fmt::format("the shared-memory window cannot be {}: {}", what, system_message(number)),
              "parallel.communication: mpi does without it");
}

[[noreturn]] void fail_space(std::uint64_t needed, std::uint64_t free, int ranks) {
  throw Error(
      ExitCode::communication,
      fmt::format("/dev/shm has {} ({} bytes) free, and the shared-memory window of {} ranks needs {} ({} bytes)",
                  format_bytes_binary(free), free, ranks, format_bytes_binary(needed), needed),
      "enlarge /dev/shm (docker run --shm-size), lower engine.max_num_batched_tokens, or set "
      "parallel.communication: mpi");
}

std::uint64_t free_bytes(int fd) {
  struct statvfs fs = {};
  if (fstatvfs(fd, &fs) != 0) fail("measured", errno);
  return static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
}

// A shared-memory object whose name goes with it.
struct NamedMemory {
  FileHandle fd;
  std::string name;

  NamedMemory() = default;
  NamedMemory(const NamedMemory&) = delete;
  NamedMemory& operator=(const NamedMemory&) = delete;
  ~NamedMemory() {
    if (!name.empty()) shm_unlink(name.c_str());
  }

  void create() {
    std::uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) fail("named", errno);
    const auto candidate = fmt::format("/tpinfer-{:016x}{:016x}", random[0], random[1]);
    fd = FileHandle(shm_open(candidate.c_str(), O_CREAT | O_EXCL | O_RDWR, S_IRUSR | S_IWUSR));
    if (!fd) fail("created", errno);
    name = candidate;
  }
};

void map_at(std::byte* address, std::size_t length, int fd, std::size_t offset) {
  if (length == 0) return;
  if (mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset)) ==
      MAP_FAILED)
    fail("mapped", errno);
}

}  // namespace

void MappingTraits::close(Handle address) const noexcept { munmap(address, length); }

ShmWindow::ShmWindow(const WindowShape& shape)
    : ranks_(shape.ranks),
      head_bytes_(whole_pages(static_cast<std::size_t>(shape.ranks) * sizeof(Line))),
      result_bytes_(whole_pages(static_cast<std::size_t>(shape.most_partials) * sizeof(float))),
      small_bytes_(whole_pages(static_cast<std::size_t>(std::min(shape.small_partials, shape.most_partials)) *
                               shape.partial_bytes)),
      gathered_bytes_(whole_pages(static_cast<std::size_t>(shape.most_gathered) * sizeof(float))) {
  const auto all = whole_pages(static_cast<std::size_t>(shape.most_partials) * shape.partial_bytes);
  bulk_bytes_ = all - std::min(all, small_bytes_);
}

std::shared_ptr<ShmWindow> ShmWindow::make(Communicator& comm, Communicator& local, const WindowShape& shape,
                                           std::optional<std::uint64_t> pretended_free) {
  std::shared_ptr<ShmWindow> window;
  NamedMemory memory;
  together(comm, kWhere, [&] {
    window = std::shared_ptr<ShmWindow>(new ShmWindow(shape));
    if (local.rank() != 0) return;
    memory.create();
    const auto free = pretended_free.value_or(free_bytes(memory.fd.get()));
    if (window->bytes() > free) fail_space(window->bytes(), free, shape.ranks);
    if (ftruncate(memory.fd.get(), static_cast<off_t>(window->bytes())) != 0) fail("sized", errno);
  });
  const auto* text = reinterpret_cast<const std::byte*>(memory.name.data());
  std::vector<std::byte> name(text, text + memory.name.size());
  local.broadcast(name, 0, kWhere);
  together(comm, kWhere, [&] {
    if (local.rank() != 0) {
      const std::string path(reinterpret_cast<const char*>(name.data()), name.size());
      memory.fd = FileHandle(shm_open(path.c_str(), O_RDWR, 0));
      if (!memory.fd) fail("opened", errno);
    }
    window->allocate_part(memory.fd.get(), local.rank());
    window->map(memory.fd.get());
    std::construct_at(&window->line(local.rank()));
  });
  return window;  // all have it: its name goes now
}

void ShmWindow::allocate_part(int fd, int rank) const {
  // every rank allocates its own part, so that it lies on this rank's NUMA node and a full /dev/shm shows now
  const std::size_t start = common_bytes() + static_cast<std::size_t>(rank) * rank_file_bytes();
  const auto allocate = [&](std::size_t offset, std::size_t length) {
    if (length == 0) return;
    int result = 0;
    do {
      result = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(length));
    } while (result == EINTR);
    if (result == ENOSPC) fail_space(bytes(), free_bytes(fd), ranks_);
    if (result != 0) fail("allocated", result);
  };
  if (rank == 0) allocate(0, common_bytes());
  allocate(start, rank_file_bytes());
}

void ShmWindow::map(int fd) {
  const std::size_t length = common_bytes() + static_cast<std::size_t>(ranks_) * rank_map_bytes();
  void* address = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) fail("mapped", errno);
  base_ = UniqueHandle<MappingTraits>(static_cast<std::byte*>(address), MappingTraits{length});
  map_at(base_.get(), common_bytes(), fd, 0);
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::size_t file = common_bytes() + static_cast<std::size_t>(rank) * rank_file_bytes();
    std::byte* to = rank_base(rank);
    for (std::size_t view = 0; view < 2; ++view) {
      map_at(to, small_bytes_, fd, file + view * small_bytes_);
      map_at(to + small_bytes_, bulk_bytes_, fd, file + 2 * small_bytes_);
      to += small_bytes_ + bulk_bytes_;
    }
    map_at(to, gathered_bytes_, fd, file + 2 * small_bytes_ + bulk_bytes_);
  }
}

}  // namespace tpinfer
