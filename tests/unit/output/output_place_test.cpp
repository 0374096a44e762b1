#include <hdf5.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "output/result_reader.hpp"
#include "output/result_writer.hpp"
#include "sample_result.hpp"
#include "scratch.hpp"

namespace {
std::atomic<int> lock_calls{0};
std::atomic<bool> no_locks{false};  ///< as on a file system without them
}  // namespace

/// Stands before the C library's for this program, HDF5 included.
extern "C" int flock(int, int) noexcept {
  ++lock_calls;
  if (!no_locks) return 0;
  errno = ENOLCK;
  return -1;
}

namespace tpinfer::test {
namespace {

namespace fs = std::filesystem;

class OutputPlace : public Scratch {
 protected:
  /// Both the check before loading and the writing complain, in words that hold `parts`.
  void refuses(const fs::path& file, std::initializer_list<const char*> parts) const {
    for (const bool check : {true, false}) {
      const auto text =
          complaint(ExitCode::output, [&] { check ? check_output_place(file) : write_result_file(file, RunResult{}); });
      for (const char* part : parts) EXPECT_HAS(text, part);
    }
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }
};

TEST_F(OutputPlace, ACheckLeavesNothing) {
  check_output_place(folder_ / "a.h5");
  EXPECT_EQ(entries(), 0U);
  EXPECT_FALSE(output_exists(folder_ / "a.h5"));
  write_result_file(folder_ / "a.h5", RunResult{});
  EXPECT_TRUE(output_exists(folder_ / "a.h5"));
  check_output_place(folder_ / "a.h5");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputPlace, BadPlacesAreRefusedWithWhatToDo) {
  refuses(folder_ / "no" / "a.h5", {"a.h5", "No such file", "create the folder"});
  spit(folder_ / "plain", "x");
  refuses(folder_ / "plain" / "a.h5", {"plain/a.h5", "Not a directory", "is no folder"});
  refuses(folder_, {folder_.c_str(), "directory", "name a file"});
  refuses(folder_ / "", {"directory", "name a file"});
  refuses("/dev/null", {"/dev/null", "no regular file"});
  refuses("/proc/a.h5", {"/proc/a.h5", "output.file"});
  fs::create_directory(folder_ / "b.h5.part");
  refuses(folder_ / "b.h5", {"b.h5"});
}

TEST_F(OutputPlace, AReadOnlyFolderIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  refuses(folder_ / "a.h5", {"Permission denied", "allow writing"});
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(OutputPlace, APartFromAKilledRunIsReplacedAndALinkNotFollowed) {
  spit(folder_ / "a.h5.part", std::string(100'000, 'x'));
  check_output_place(folder_ / "a.h5");
  EXPECT_TRUE(fs::exists(folder_ / "a.h5.part"));
  write_result_file(folder_ / "a.h5", RunResult{});
  EXPECT_NO_THROW(read_result_file(folder_ / "a.h5"));

  spit(folder_ / "victim", "precious");
  fs::create_symlink(folder_ / "victim", folder_ / "b.h5.part");
  check_output_place(folder_ / "b.h5");
  write_result_file(folder_ / "b.h5", RunResult{});
  EXPECT_EQ(slurp(folder_ / "victim"), "precious");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ / "b.h5")));
}

TEST_F(OutputPlace, TheUmaskHolds) {
  const mode_t old = ::umask(0027);
  write_result_file(folder_ / "a.h5", RunResult{});
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat((folder_ / "a.h5").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
}

TEST_F(OutputPlace, ARelativeNameIsInTheWorkingFolder) {
  const auto before = fs::current_path();
  fs::current_path(folder_);
  check_output_place("a.h5");
  write_result_file("a.h5", RunResult{});
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(folder_ / "a.h5"));
}

TEST_F(OutputPlace, NoLockIsAsked) {
  ::unsetenv("HDF5_USE_FILE_LOCKING");
  lock_calls = 0;
  no_locks = true;
  write_result_file(folder_ / "a.h5", RunResult{});
  read_result_file(folder_ / "a.h5");
  no_locks = false;
  EXPECT_EQ(lock_calls, 0);
}

TEST_F(OutputPlace, ALockThatTheEnvironmentAsksForIsNamed) {
  // In a child, as HDF5 reads the variable when it starts; the exit status says whether the complaint was right.
  const pid_t child = ::fork();
  if (child == 0) {
    H5close();
    ::setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
    no_locks = true;
    try {
      write_result_file(folder_ / "a.h5", RunResult{});
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool right = text.find("a.h5") != std::string::npos && text.find("No locks") != std::string::npos &&
                         text.find("unset HDF5_USE_FILE_LOCKING") != std::string::npos;
      ::_exit(right ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(entries(), 0U);
}

/// Runs `body` with `disk`, a file system of `bytes` at most; skips where mounting is not allowed.
template <class Body>
void on_small_disk(const fs::path& disk, std::size_t bytes, Body body) {
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) != 0)
    GTEST_SKIP() << "no small disk: mounting a tmpfs failed: " << system_message(errno);
  body();
  EXPECT_EQ(::umount(disk.c_str()), 0) << "a descriptor is still open";
}

TEST_F(OutputPlace, AFullDiskLeavesTheOldFileAndNoPart) {
  RunResult r;
  r.prompts.resize(1);
  r.prompts[0].text = std::string(100'000, 'x');
  std::uint32_t state = 1;
  for (int i = 0; i < 400'000; ++i) {
    state = state * 1664525U + 1013904223U;
    r.prompts[0].token_ids.push_back(static_cast<std::int32_t>(state >> 1));
  }
  // Full at the first chunk, in the middle, and only when all is flushed (the file has about 1,290 KiB).
  for (std::size_t kib = 32; kib < 1280; kib += 96) {
    const auto disk = folder_ / fmt::format("disk-{}", kib);
    on_small_disk(disk, kib << 10, [&] {
      spit(disk / "a.h5", "old");
      const auto text = complaint(ExitCode::output, [&] { write_result_file(disk / "a.h5", r); });
      EXPECT_HAS(text, (disk / "a.h5").string());
      EXPECT_HAS(text, "No space left on device");
      EXPECT_HAS(text, "make room");
      EXPECT_EQ(slurp(disk / "a.h5"), "old");
      EXPECT_FALSE(fs::exists(disk / "a.h5.part"));
    });
  }
}

}  // namespace
}  // namespace tpinfer::test
