#include "checkpoint/mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "memory/process_memory.hpp"
#include "model_folder.hpp"

namespace tpinfer {
namespace {

using test_files::complaint;
using test_files::mentions;
using test_files::TemporaryFolder;
using test_files::write_file;

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string counted(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  return text;
}

bool same(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() == text.size() && std::equal(bytes.begin(), bytes.end(), text.begin(),
                                                   [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
}

TEST(MappedFile, ShowsTheFileOrARangeOfIt) {
  const TemporaryFolder folder;
  const std::string text = counted(20000);
  write_file(folder / "w", text);
  EXPECT_TRUE(same(MappedFile::open(folder / "w", text.size()).bytes(), text));
  for (const auto& [offset, length] :
       {std::pair{0, 1}, {1, 4096}, {4095, 2}, {4096, 4096}, {5000, 15000}, {19999, 1}}) {
    const auto part = MappedFile::open(folder / "w", text.size(), static_cast<std::uint64_t>(offset),
                                       static_cast<std::uint64_t>(length));
    EXPECT_TRUE(same(part.bytes(),
                     std::string_view(text).substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(length))))
        << offset;
  }
  EXPECT_TRUE(MappedFile::open(folder / "w", text.size(), 20000, 0).bytes().empty());
  write_file(folder / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder / "empty", 0).bytes().empty());
  EXPECT_TRUE(MappedFile().bytes().empty());
}

TEST(MappedFile, AnotherSizeThanPlannedIsRefused) {
  const TemporaryFolder folder;
  write_file(folder / "w", counted(5000));
  for (const std::uint64_t planned : {4999U, 5001U, 0U})
    EXPECT_TRUE(mentions(complaint([&] { MappedFile::open(folder / "w", planned); }),
                         {"/w: has 5000 bytes", std::to_string(planned), "changed"}));
  EXPECT_TRUE(mentions(complaint([&] { MappedFile::open(folder / "gone", 5); }), {"/gone", "no such file"}));
  EXPECT_TRUE(mentions(complaint([&] { MappedFile::open(folder.path(), 5); }), {"a folder"}));
  const auto beyond = [&](std::uint64_t offset, std::uint64_t length) {
    return complaint([&] { MappedFile::open(folder / "w", 5000, offset, length); }, ExitCode::internal);
  };
  EXPECT_TRUE(mentions(beyond(4000, 1001), {"lie beyond its 5000 bytes"}));
  EXPECT_TRUE(mentions(beyond(5001, 0), {"lie beyond"}));
  EXPECT_TRUE(mentions(beyond(2, ~std::uint64_t{0}), {"lie beyond"}));
}

TEST(MappedFile, CanBeMovedAndUnmapsOnce) {
  const TemporaryFolder folder;
  const std::string text = counted(9000);
  write_file(folder / "w", text);
  MappedFile a = MappedFile::open(folder / "w", text.size());
  const void* at = a.bytes().data();
  MappedFile b = std::move(a);
  EXPECT_TRUE(same(b.bytes(), text));
  EXPECT_EQ(b.bytes().data(), at);
  a = MappedFile::open(folder / "w", text.size(), 100, 50);
  b = std::move(a);
  EXPECT_EQ(b.bytes().size(), 50U);
  EXPECT_TRUE(same(b.bytes(), std::string_view(text).substr(100, 50)));
}

TEST(MappedFile, IsReadOnly) {
  const TemporaryFolder folder;
  write_file(folder / "read-only-proof", counted(9000));
  const MappedFile mapped = MappedFile::open(folder / "read-only-proof", 9000);
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("read-only-proof") == std::string::npos) continue;
    ++found;
    EXPECT_NE(line.find(" r--p "), std::string::npos) << line;
  }
  EXPECT_EQ(found, 1);
}

TEST(MappedFile, ReleaseGivesPagesBackAndKeepsNeighbours) {
  const TemporaryFolder folder;
  const std::string text = counted(32 * kMiB + 100);
  write_file(folder / "w", text);
  const MappedFile mapped = MappedFile::open(folder / "w", text.size(), 50, text.size() - 50);
  mapped.will_need(0, text.size());
  EXPECT_TRUE(same(mapped.bytes(), std::string_view(text).substr(50)));  // touches all
  const auto file_backed = [] { return read_process_memory().file_backed; };
  const auto whole = file_backed();
  mapped.release(8 * kMiB + 1, 16 * kMiB);
  const auto half = file_backed();
  EXPECT_LE(half + 15 * kMiB, whole);
  EXPECT_GE(half + 17 * kMiB, whole);
  mapped.release(0, mapped.bytes().size());
  EXPECT_LE(file_backed() + 31 * kMiB, whole);
  mapped.release(mapped.bytes().size(), 5);  // nothing there
  mapped.release(1, ~std::uint64_t{0});      // cut to what there is
  mapped.will_need(7, ~std::uint64_t{0});
  EXPECT_TRUE(same(mapped.bytes(), std::string_view(text).substr(50)));  // read again
}

}  // namespace
}  // namespace tpinfer
