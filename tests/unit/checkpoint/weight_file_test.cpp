// Files of weights that are not, or no longer, what the plan was made from, up to those that are cut while they are
// mapped.
#include "checkpoint/weight_file.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "model_folder.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
using test_files::complaint;
using test_files::mentions;
using test_files::TemporaryFolder;
using test_files::write_file;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 64;

/// A file of pages of 0x11, of which a plan was made.
struct PlannedPages {
  PlannedPages() {
    write_file(path, std::string(kPages * kPage, '\x11'));
    planned = {.path = path, .bytes = kPages * kPage};
    planned.modified = open_model_file(path).modified;
  }
  void cut(std::size_t bytes) const { fs::resize_file(path, bytes); }
  // the clock of a file system may be coarse
  static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  TemporaryFolder folder;
  fs::path path = folder / "w";
  PlannedFile planned;
};

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                         [](std::uint64_t sum, std::byte b) { return sum + std::to_integer<std::uint64_t>(b); });
}

void touch(std::span<const std::byte> bytes) {
  volatile std::uint64_t sum = sum_of(bytes);
  (void)sum;
}

// A build with a sanitizer ends by its own report.
bool by_bus_error(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

TEST(MappingGuard, WithoutItACutFileKills) {
  EXPECT_EXIT(
      {
        const PlannedPages pages;
        const MappedFile mapped = MappedFile::open(pages.path, kPages * kPage);
        pages.cut(10 * kPage);
        touch(mapped.bytes());
      },
      by_bus_error, "");
}

TEST(MappingGuard, ACutFileGivesZerosToAllThreadsAndIsTold) {
  for (const std::size_t kept : {std::size_t{0}, kPage, 10 * kPage, 10 * kPage + 100, (kPages - 1) * kPage}) {
    const PlannedPages pages;
    const MappedFile mapped = MappedFile::open(pages.path, kPages * kPage);
    const MappingGuard guard(mapped.bytes());
    EXPECT_FALSE(guard.failed_at());
    touch(mapped.bytes().first(kPage / 2));
    pages.cut(kept);
    std::atomic<std::uint64_t> sum = 0;
    {
      std::vector<std::jthread> threads;
      constexpr std::size_t kThreads = 4;
      constexpr std::size_t kShare = kPages / kThreads * kPage;
      for (std::size_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] { sum += sum_of(mapped.bytes().subspan(t * kShare, kShare)); });
    }
    EXPECT_EQ(sum, kept * 0x11) << kept;
    ASSERT_TRUE(guard.failed_at()) << kept;
    EXPECT_EQ(*guard.failed_at(), (kept + kPage - 1) / kPage * kPage);
  }
}

TEST(MappingGuard, CountsFromTheFirstByteOfItsSpan) {
  const PlannedPages pages;
  const MappedFile mapped = MappedFile::open(pages.path, kPages * kPage, 3 * kPage + 1000, 20 * kPage);
  const MappingGuard guard(mapped.bytes());
  pages.cut(8 * kPage);
  EXPECT_EQ(sum_of(mapped.bytes()), (5 * kPage - 1000) * 0x11);
  EXPECT_EQ(guard.failed_at(), 5 * kPage - 1000);
}

TEST(MappingGuard, ASignalElsewhereTakesItsCourse) {
  EXPECT_EXIT(
      {
        const PlannedPages pages;
        const PlannedPages others;
        const MappedFile mapped = MappedFile::open(pages.path, kPages * kPage);
        const MappedFile other = MappedFile::open(others.path, kPages * kPage);
        const MappingGuard guard(mapped.bytes());
        others.cut(0);
        touch(other.bytes());
      },
      by_bus_error, "");
}

void handler_of_somebody(int) {}

TEST(MappingGuard, GivesTheSignalBackAndIsAlone) {
  struct sigaction own {};
  own.sa_handler = handler_of_somebody;
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGBUS, &own, &before), 0);
  const std::vector<std::byte> bytes(10);
  {
    const MappingGuard guard(bytes);
    EXPECT_TRUE(mentions(complaint([&] { const MappingGuard second(bytes); }, ExitCode::internal), {"at once"}));
    EXPECT_FALSE(guard.failed_at());
  }
  { const MappingGuard again(bytes); }
  struct sigaction after {};
  ASSERT_EQ(::sigaction(SIGBUS, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, handler_of_somebody);
}

class WeightFiles : public ::testing::TestWithParam<ReadMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, WeightFiles, ::testing::Values(ReadMode::mapped, ReadMode::read),
                         [](const auto& mode) { return mode.param == ReadMode::read ? "read" : "mapped"; });

TEST_P(WeightFiles, AnotherFileThanPlannedIsRefused) {
  const PlannedPages pages;
  const auto open = [&](const PlannedFile& planned) {
    return complaint([&] { const WeightFile file(planned, GetParam()); });
  };
  EXPECT_EQ(open(pages.planned), "no complaint");
  PlannedFile other = pages.planned;
  other.bytes += 1;
  EXPECT_TRUE(mentions(open(other), {"/w: has 262144 bytes", "262145", "changed"}));
  PlannedPages::wait();
  write_file(pages.path, std::string(kPages * kPage, '\x12'));
  EXPECT_TRUE(mentions(open(pages.planned), {"/w: was changed after the plan"}));
  other = pages.planned;
  other.modified.reset();  // another host
  EXPECT_EQ(open(other), "no complaint");
  fs::remove(pages.path);
  EXPECT_TRUE(mentions(open(pages.planned), {"/w: there is no such file"}));
}

TEST_P(WeightFiles, AnotherHeaderThanPlannedIsRefused) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", test_files::sound_file());
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), Log());
  const CheckpointFile& file = checkpoint.files()[0];
  const PlannedFile planned{file.path, file.bytes, file.header_bytes, file.header_hash};
  const auto open = [&] { return complaint([&] { const WeightFile opened(planned, GetParam()); }); };
  EXPECT_EQ(open(), "no complaint");
  std::string text = test_files::sound_file();
  text.replace(text.find("\"b\""), 3, "\"c\"");
  write_file(file.path, text);
  EXPECT_TRUE(mentions(open(), {"model.safetensors: has another header", "another copy"}));
  text = test_files::sound_file();
  text.back() = '\x12';  // a weight: not the header's to see
  write_file(file.path, text);
  EXPECT_EQ(open(), "no complaint");
}

// Reads a tensor of pages 4 to 60 in two halves; `change` comes between them. -> the complaint
std::string read_with(ReadMode mode, const std::function<void(const PlannedPages&)>& change) {
  const PlannedPages pages;
  const WeightFile file(pages.planned, mode);
  std::vector<std::byte> staging;
  return complaint([&] {
    TensorReader reader(file, "the.tensor", 4 * kPage, 56 * kPage, staging);
    EXPECT_EQ(sum_of(reader.get(0, 20 * kPage)), 20 * kPage * 0x11);
    PlannedPages::wait();
    change(pages);
    touch(reader.get(20 * kPage, 36 * kPage));
    std::vector<std::byte> to(5 * kPage);
    reader.copy(50 * kPage, to);
    reader.finish();
  });
}

TEST_P(WeightFiles, AreReadToTheEnd) {
  EXPECT_EQ(read_with(GetParam(), [](const PlannedPages&) {}), "no complaint");
}

TEST_P(WeightFiles, CutWhileTheyAreReadAreTold) {
  for (const std::size_t bytes :
       {kPages * kPage - 1, 60 * kPage, 50 * kPage + 7, 30 * kPage, 10 * kPage, std::size_t{0}})
    EXPECT_TRUE(mentions(read_with(GetParam(), [&](const PlannedPages& pages) { pages.cut(bytes); }),
                         {"/w: was cut from 262144 to " + std::to_string(bytes) + " bytes", "\"the.tensor\""}))
        << bytes;
}

TEST_P(WeightFiles, ChangedWhileTheyAreReadAreTold) {
  const auto told = [](const std::string& text) {
    return mentions(text, {"/w: was changed while", "\"the.tensor\"", "start again"});
  };
  EXPECT_TRUE(told(read_with(GetParam(), [](const PlannedPages& p) { p.cut(kPages * kPage + 1); })));
  EXPECT_TRUE(told(read_with(GetParam(), [](const PlannedPages& p) {
    std::fstream(p.path, std::ios::in | std::ios::out | std::ios::binary) << "other";
  })));
  EXPECT_TRUE(told(read_with(GetParam(), [](const PlannedPages& p) {  // cut and filled again in the meantime
    p.cut(0);
    write_file(p.path, std::string(kPages * kPage, '\x13'));
  })));
}

TEST(WeightFile, TheModeIsTheOneAskedForAndOfALocalDiskMapped) {
  const PlannedPages pages;
  EXPECT_TRUE(WeightFile(pages.planned, ReadMode::mapped).is_mapped());
  EXPECT_FALSE(WeightFile(pages.planned, ReadMode::read).is_mapped());
  const fs::path memory = "/dev/shm";
  if (!fs::exists(memory)) GTEST_SKIP() << "no " << memory;
  PlannedFile local{.path = memory / fmt::format("tpinfer_weight_file_{}", ::getpid()), .bytes = 5};
  write_file(local.path, "hello");
  EXPECT_TRUE(WeightFile(local, ReadMode::automatic).is_mapped());
  fs::remove(local.path);
}

}  // namespace
}  // namespace tpinfer
