#include "checkpoint/published_sum.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "core/error.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kOfAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const std::string kOther(64, '0');

class PublishedSums : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    put("a.safetensors", "abc");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  CheckpointFile file(const std::string& name = "a.safetensors") const {
    return {.name = name, .path = folder_ / name};
  }
  std::string sum(const std::string& name = "a.safetensors") const {
    const auto found = published_sum(folder_, file(name));
    return found ? found->sha256 : "none";
  }
  template <class Step>
  static std::string complaint(Step step) {
    try {
      step();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::input);
      return e.what();
    }
    return "no complaint";
  }

  fs::path folder_;
};

TEST_F(PublishedSums, StandInAList) {
  put("SHA256SUMS", "# made by hand\n" + kOther + "  b.safetensors\r\n" + kOfAbc + " *./a.safetensors\n");
  EXPECT_EQ(sum(), kOfAbc);
  EXPECT_EQ(sum("b.safetensors"), kOther);
  EXPECT_EQ(sum("safetensors"), "none");
  put("SHA256SUMS", "ba7816bf  a.safetensors\n");
  EXPECT_EQ(sum(), "none");
  put("SHA256SUMS", "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD  a.safetensors");
  EXPECT_EQ(sum(), kOfAbc);
}

TEST_F(PublishedSums, StandInWhatTheDownloaderKeeps) {
  const std::string notes = ".cache/huggingface/download/a.safetensors.metadata";
  put(notes, "0123\n" + std::string(kOfAbc) + "\n1.5\n");
  EXPECT_EQ(sum(), kOfAbc);
  put(notes, "0123\n" + std::string(40, 'f') + "\n1.5\n");  // a small file's, which is no SHA-256
  EXPECT_EQ(sum(), "none");
  put(notes, "");
  EXPECT_EQ(sum(), "none");
  put("SHA256SUMS", std::string(kOfAbc) + "  a.safetensors\n");  // the owner's own word comes first
  put(notes, "0123\n" + kOther + "\n1.5\n");
  EXPECT_EQ(sum(), kOfAbc);
}

TEST_F(PublishedSums, AreTheNamesOfBlobs) {
  put(std::string("blobs/") + kOfAbc, "abc");
  fs::create_symlink(folder_ / "blobs" / kOfAbc, folder_ / "b.safetensors");
  EXPECT_EQ(sum("b.safetensors"), kOfAbc);
  put(std::string("other/") + kOfAbc, "abc");
  fs::create_symlink(folder_ / "other" / kOfAbc, folder_ / "c.safetensors");
  EXPECT_EQ(sum("c.safetensors"), "none");
}

TEST_F(PublishedSums, AreWantedForAllFiles) {
  put("SHA256SUMS", std::string(kOfAbc) + "  a.safetensors\n");
  EXPECT_EQ(published_sums(folder_, {file()}).size(), 1U);
  EXPECT_THAT(complaint([&] {
                published_sums(folder_, {file(), file("b"), file("c")});
              }),
              HasSubstr("no checksum of b and 1 more is written down"));
}

TEST_F(PublishedSums, AreComparedWithAllBytes) {
  std::uint64_t told = 0;
  const auto verify = [&](const std::string& sum) {
    verify_sum({(folder_ / "a.safetensors").string(), sum, "the list"}, [&](std::uint64_t done, std::uint64_t all) {
      EXPECT_EQ(all, 3U);
      told = done;
    });
  };
  EXPECT_NO_THROW(verify(kOfAbc));
  EXPECT_EQ(told, 3U);
  const std::string text = complaint([&] { verify(kOther); });
  EXPECT_THAT(text, HasSubstr("a.safetensors: its SHA-256 is ba7816bf"));
  EXPECT_THAT(text, HasSubstr("but the list says 000"));
  EXPECT_THAT(complaint([&] {
                verify_sum({(folder_ / "none").string(), kOfAbc, ""}, [](auto, auto) {});
              }),
              HasSubstr("none"));
}

}  // namespace
}  // namespace tpinfer
