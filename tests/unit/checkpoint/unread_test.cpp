// Opening a checkpoint reads headers and nothing else: measured, not assumed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <iostream>
#include <numeric>

#include "core/file_handle.hpp"
#include "memory/process_memory.hpp"
#include "model_folder.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
using test_files::f32_entry;
using test_files::TemporaryFolder;
using test_files::write_file;

constexpr std::uint64_t kPage = 4096;

// A file of that header whose weights are a hole.
void write_sparse(const fs::path& path, const std::string& header, std::uint64_t data_bytes) {
  write_file(path, test_files::length_field(header.size()) + header);
  fs::resize_file(path, 8 + header.size() + data_bytes);
}

// Takes the file out of the page cache, so that read-ahead would be seen.
void drop_from_cache(const fs::path& path) {
  const FileHandle fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fsync(fd.get()), 0);
  ASSERT_EQ(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
}

// Pages of the file that are in memory, from `offset` on.
std::uint64_t resident_pages(const fs::path& path, std::uint64_t offset) {
  const std::uint64_t bytes = fs::file_size(path);
  const MappedFile mapped = MappedFile::open(path, bytes, offset, bytes - offset);
  std::vector<unsigned char> pages((bytes - offset + kPage - 1) / kPage);
  void* base = const_cast<std::byte*>(mapped.bytes().data());
  if (::mincore(base, bytes - offset, pages.data()) != 0) ADD_FAILURE() << "mincore failed";
  return std::accumulate(pages.begin(), pages.end(), std::uint64_t{0},
                         [](std::uint64_t sum, unsigned char page) { return sum + (page & 1U); });
}

TEST(Unread, FiftyGigabytesOfWeightsAreNotRead) {
  const TemporaryFolder folder;
  constexpr std::int64_t kRows = 3200;
  constexpr std::int64_t kCols = 1'000'000;
  constexpr std::uint64_t kBytes = 4ULL * kRows * kCols;
  std::vector<std::string> entries;
  for (std::uint64_t i = 0; i < 4; ++i)
    entries.push_back(f32_entry(fmt::format("layer.{}", i), kRows, kCols, i * kBytes));
  const std::string header = test_files::header_of(entries);
  const fs::path path = folder / "model.safetensors";
  try {
    write_sparse(path, header, 4 * kBytes);
  } catch (const fs::filesystem_error& e) {
    GTEST_SKIP() << "no sparse file of 51 GB here: " << e.what();
  }
  drop_from_cache(path);
  const auto before = read_counters();
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), Log());
  const auto after = read_counters();
  EXPECT_EQ(checkpoint.tensors().size(), 4U);
  EXPECT_EQ(checkpoint.file_bytes(), 8 + header.size() + 4 * kBytes);
  // the page that holds the header's end holds weights too: count from the next
  EXPECT_EQ(resident_pages(path, (8 + header.size() + kPage - 1) / kPage * kPage), 0U);
  if (!before || !after) GTEST_SKIP() << "/proc/self/io cannot be read here: bytes read are not counted";
  const std::uint64_t counting = 500;  // reading /proc/self/io itself
  EXPECT_LE(after->rchar - before->rchar, 8 + header.size() + counting);
  EXPECT_GE(after->rchar - before->rchar, 8 + header.size());
}

TEST(Unread, ShardsAreReadExactlyUpToTheirWeights) {
  const TemporaryFolder folder;
  std::uint64_t wanted = 0;
  std::string map;
  for (int shard = 0; shard < 5; ++shard) {
    const std::string name = fmt::format("s{}.safetensors", shard);
    const std::string header = test_files::header_of({f32_entry(fmt::format("t{}", shard), 1 << 15, 1 << 10, 0)});
    write_sparse(folder / name, header, 4ULL << 25);
    wanted += 8 + header.size();
    map += fmt::format("{}\"t{}\":\"{}\"", shard ? "," : "", shard, name);
  }
  const std::string index = fmt::format("{{\"weight_map\":{{{}}}}}", map);
  write_file(folder / "model.safetensors.index.json", index);
  const auto before = read_counters();
  EXPECT_EQ(Checkpoint::open(folder.path(), Log()).tensors().size(), 5U);
  const auto after = read_counters();
  if (!before || !after) GTEST_SKIP() << "/proc/self/io cannot be read here: bytes read are not counted";
  EXPECT_LE(after->rchar - before->rchar, wanted + index.size() + 500);
}

}  // namespace
}  // namespace tpinfer
