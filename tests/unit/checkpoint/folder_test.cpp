#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/model_file.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "model_folder.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
using test_files::f32_entry;
using test_files::header_of;
using test_files::mentions;
using test_files::open_complaint;
using test_files::safetensors_file;
using test_files::sound_file;
using test_files::TemporaryFolder;
using test_files::write_file;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kOne = "model-00001-of-00002.safetensors";
constexpr const char* kTwo = "model-00002-of-00002.safetensors";

// Tensors a and b in the first shard, c in the second.
void write_shards(const TemporaryFolder& folder) {
  write_file(folder / kOne, sound_file());
  write_file(folder / kTwo, safetensors_file(header_of({f32_entry("c", 1, 1, 0)}), 4));
  write_file(
      folder / kIndex,
      fmt::format(R"({{"metadata":{{"total_size":36}},"weight_map":{{"c":"{1}","a":"{0}","b":"{0}"}}}})", kOne, kTwo));
}

TEST(Folder, OneFile) {
  const TemporaryFolder folder;
  write_file(folder / kSingle, sound_file());
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), Log());
  ASSERT_EQ(checkpoint.files().size(), 1U);
  EXPECT_EQ(checkpoint.files()[0].name, kSingle);
  EXPECT_EQ(checkpoint.files()[0].bytes, sound_file().size());
  EXPECT_EQ(checkpoint.files()[0].header_bytes, sound_file().size() - 32);
  EXPECT_EQ(checkpoint.file_bytes(), sound_file().size());
  const TensorInfo* b = checkpoint.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->offset, checkpoint.files()[0].header_bytes + 24);
  EXPECT_EQ(b->bytes, 8U);
  EXPECT_EQ(checkpoint.find("bb"), nullptr);
  EXPECT_EQ(checkpoint.find(""), nullptr);
}

TEST(Folder, ShardsWithAnIndexAndOnlyThose) {
  const TemporaryFolder folder;
  write_shards(folder);
  write_file(folder / "consolidated.safetensors", "not even a weight file");
  write_file(folder / "model-00003-of-00002.safetensors", sound_file());
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), Log());
  ASSERT_EQ(checkpoint.files().size(), 2U);
  EXPECT_EQ(checkpoint.files()[1].name, kTwo);
  ASSERT_EQ(checkpoint.tensors().size(), 3U);
  EXPECT_EQ(checkpoint.find("a")->file, 0U);
  EXPECT_EQ(checkpoint.find("c")->file, 1U);
  EXPECT_EQ(checkpoint.find("c")->offset, checkpoint.files()[1].header_bytes);
}

TEST(Folder, ASingleFileBesideAnIndexIsToldNotRead) {
  const TemporaryFolder folder;
  write_shards(folder);
  write_file(folder / kSingle, "other");
  std::string told;
  Checkpoint::open(folder.path(), Log([&](LogLevel level, const std::string& text) {
                     if (level == LogLevel::warning) told += text;
                   }));
  EXPECT_TRUE(mentions(told, {"model.safetensors is not read"}));
}

TEST(Folder, LinksAreFollowedAsInAHubCache) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "snapshots/abc");
  write_file(folder / "blobs/0a1b", sound_file());
  fs::create_symlink("../../blobs/0a1b", folder / "snapshots/abc/model.safetensors");
  EXPECT_EQ(Checkpoint::open(folder / "snapshots/abc", Log()).tensors().size(), 2U);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {"hub cache", "snapshots"}));
}

TEST(Folder, LinksThatLeadNowhereOrInACircle) {
  const TemporaryFolder folder;
  fs::create_symlink("second", folder / kSingle);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {"/model.safetensors: is a link to ", "/second,"}));
  fs::create_symlink("blobs/0a1b2c", folder / "second");
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {"/model.safetensors: is a link to ", "/blobs/0a1b2c,"}));
  fs::remove(folder / "second");
  fs::create_symlink(kSingle, folder / "second");
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "back to itself"}));
}

TEST(Folder, NoFolderNoWeights) {
  const TemporaryFolder folder;
  EXPECT_TRUE(mentions(open_complaint(folder / "org/name"), {"/org/name: there is no such folder", "not by its name"}));
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {folder.path().string(), "no weights", "safetensors", kIndex}));
  write_file(folder / "README.md", "x");
  EXPECT_TRUE(mentions(open_complaint(folder / "README.md"), {"is a file", folder.path().string()}));
  write_file(folder / "pytorch_model.bin", "PK\x03\x04");
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {"pytorch_model.bin", "only safetensors", "save_pretrained"}));
  write_file(folder / kOne, sound_file());
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kOne, "neither", kIndex}));
}

TEST(Folder, FilesThatAreSomethingElse) {
  const TemporaryFolder folder;
  const auto with = [&](std::string_view text) {
    write_file(folder / kSingle, text);
    const std::string told = open_complaint(folder.path());
    EXPECT_TRUE(mentions(told, {(folder / kSingle).string()}));
    return told;
  };
  using namespace std::string_view_literals;
  EXPECT_TRUE(mentions(with(""), {"is empty"}));
  EXPECT_TRUE(mentions(with("\x10\0\0\0\0"sv), {"5 bytes"}));
  EXPECT_TRUE(
      mentions(with("version https://git-lfs.github.com/spec/v1\noid sha256:4d\n"), {"Git-LFS", "not downloaded"}));
  EXPECT_TRUE(mentions(with("\n <!DOCTYPE HTML>\n<html>"), {"web page"}));
  EXPECT_TRUE(mentions(with("PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0archive/data.pkl"sv), {"PyTorch", "zip"}));
  EXPECT_TRUE(
      mentions(with("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03"), {"PyTorch", "pickle"}));
  EXPECT_TRUE(mentions(with("GGUF\x03\0\0\0\x23\x01\0\0\0\0\0\0"sv), {"GGUF"}));
  EXPECT_TRUE(mentions(with(R"({"error":"Repository not found"})"), {"a JSON text"}));
  EXPECT_TRUE(mentions(with(std::string(400, '\0')), {"length 0"}));
  EXPECT_TRUE(mentions(with(std::string(400, '\x7f')), {"400 bytes", "9187201950435737471"}));
}

TEST(Folder, HeaderLengthsThatCannotBe) {
  const TemporaryFolder folder;
  const std::string sound = sound_file();
  const auto with = [&](std::uint64_t length) {
    write_file(folder / kSingle, test_files::length_field(length) + sound.substr(8));
    return open_complaint(folder.path());
  };
  EXPECT_TRUE(mentions(with(0), {"length 0"}));
  for (const std::uint64_t length : {5'000'000'000ULL, 1ULL << 63, ~0ULL - 7, ~0ULL, 1ULL * sound.size() - 7})
    EXPECT_TRUE(mentions(with(length), {"cut short", std::to_string(length), std::to_string(sound.size())}));
  EXPECT_TRUE(mentions(with(sound.size() - 8), {"not valid JSON"}));
  // a header above the limit in a file that is long enough: both numbers, and nothing of that size is read
  write_file(folder / kSingle, test_files::length_field(kMaxHeaderBytes + 1) + "{");
  fs::resize_file(folder / kSingle, kMaxHeaderBytes + 100);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {"100000001", "100000000"}));
}

TEST(Folder, CutAndPaddedFiles) {
  const TemporaryFolder folder;
  const std::string sound = sound_file();
  const auto bytes = std::to_string(sound.size() - 1);
  write_file(folder / kSingle, sound.substr(0, sound.size() - 1));
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "\"b\"", bytes, "beyond the file"}));
  write_file(folder / kSingle, sound + std::string(16, '\0'));
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "16 bytes after it"}));
  write_file(folder / kSingle, safetensors_file("{}", 0));
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "no tensors"}));
}

TEST(Folder, ThingsThatAreNoFiles) {
  const TemporaryFolder folder;
  fs::create_directory(folder / kSingle);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "is a folder"}));
  fs::remove(folder / kSingle);
  ASSERT_EQ(::mkfifo((folder / kSingle).c_str(), 0600), 0);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "is a pipe"}));  // and does not wait for a writer
  fs::remove(folder / kSingle);
  fs::create_symlink("/dev/null", folder / kSingle);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "is a device"}));
}

TEST(Folder, PermissionIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  write_file(folder / kSingle, sound_file());
  fs::permissions(folder / kSingle, fs::perms::none);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kSingle, "permission"}));
  fs::permissions(folder.path(), fs::perms::none);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {"Permission"}));
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST(Index, MissingShardsAreListedAtOnce) {
  const TemporaryFolder folder;
  write_shards(folder);
  fs::remove(folder / kTwo);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kIndex, "1 of its 2 files", kTwo, "incomplete download"}));
  fs::rename(folder / kOne, folder / "new-1.safetensors");
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {"2 of its 2 files", kOne, kTwo, "new-1.safetensors"}));
}

TEST(Index, MustAgreeWithTheShardsBothWays) {
  const TemporaryFolder folder;
  write_shards(folder);
  const auto with = [&](const std::string& map) {
    write_file(folder / kIndex, fmt::format("{{\"weight_map\":{{{}}}}}", map));
    return open_complaint(folder.path());
  };
  const std::string a = fmt::format("\"a\":\"{}\"", kOne);
  const std::string b = fmt::format(",\"b\":\"{}\"", kOne);
  const std::string c = fmt::format(",\"c\":\"{}\"", kTwo);
  EXPECT_EQ(with(a + b + c), "no complaint");
  EXPECT_TRUE(mentions(with(a + c), {kIndex, "does not list", "\"b\"", kOne}));
  EXPECT_TRUE(mentions(with(a + b + c + fmt::format(",\"d\":\"{}\"", kTwo)), {kIndex, "\"d\"", kTwo, "neither"}));
  EXPECT_TRUE(mentions(with(a + c + fmt::format(",\"b\":\"{}\"", kTwo)), {kIndex, "\"b\"", kOne, kTwo}));
  EXPECT_TRUE(mentions(with(fmt::format("{},{}", a, a)), {kIndex, "\"a\"", "twice"}));
  write_file(folder / kTwo, safetensors_file(header_of({f32_entry("c", 1, 1, 0), f32_entry("b", 1, 2, 4)}), 12));
  EXPECT_EQ(with(a + b + c), "no complaint");  // the same bytes: copies_test
}

TEST(Index, NamesOutsideTheFolderAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / kSingle, sound_file());
  const auto with = [&](std::string_view name) {
    write_file(folder / kIndex, fmt::format("{{\"weight_map\":{{\"a\":\"{}\"}}}}", name));
    return open_complaint(folder.path());
  };
  for (const std::string_view bad : {"../x", "/etc/hostname", "a/../../x", "a/..", "..", ".", "", "a//b", "./a", "a/"})
    EXPECT_TRUE(mentions(with(bad), {kIndex, "\"a\"", fmt::format("\"{}\"", bad), "plain names"}));
  EXPECT_TRUE(mentions(with("a\\u0000b"), {"plain names"}));
  EXPECT_TRUE(mentions(with("..\\\\x"), {"plain names"}));
  EXPECT_TRUE(mentions(with("..x"), {"not in the folder"}));  // a plain name, if a strange one
  EXPECT_TRUE(mentions(with(kSingle), {"\"b\""}));            // read, and found to have a tensor more
}

TEST(Index, ThatIsNoIndex) {
  const TemporaryFolder folder;
  write_file(folder / kSingle, sound_file());
  const auto with = [&](std::string_view text) {
    write_file(folder / kIndex, text);
    const std::string told = open_complaint(folder.path());
    EXPECT_TRUE(mentions(told, {kIndex}));
    return told;
  };
  EXPECT_TRUE(mentions(with(""), {"is empty"}));
  EXPECT_TRUE(mentions(with("<html>"), {"web page"}));
  EXPECT_TRUE(mentions(with("version https://git-lfs.github.com/spec/v1\n"), {"Git-LFS"}));
  EXPECT_TRUE(mentions(with("{\"weight_map\""), {"not valid JSON"}));
  EXPECT_TRUE(mentions(with("{}"), {"weight_map"}));
  EXPECT_TRUE(mentions(with("[]"), {"weight_map"}));
  EXPECT_TRUE(mentions(with("{\"weight_map\":[]}"), {"weight_map"}));
  EXPECT_TRUE(mentions(with("{\"weight_map\":{}}"), {"weight_map", "empty"}));
  EXPECT_TRUE(mentions(with("{\"weight_map\":{\"a\":5}}"), {"\"a\"", "string", "5"}));
  fs::remove(folder / kIndex);
  fs::create_symlink("blobs/77", folder / kIndex);
  EXPECT_TRUE(mentions(open_complaint(folder.path()), {kIndex, "blobs/77", "does not exist"}));
}

TEST(InQuotes, CutsBetweenLetters) {
  EXPECT_EQ(in_quotes("a\tb"), "\"a\\x09b\"");
  std::string name(199, 'x');
  name += "\xc3\xa4 and more";  // the letter would be cut in two
  EXPECT_EQ(in_quotes(name), fmt::format("\"{}...\"", std::string(199, 'x')));
}

TEST(Folder, TheModelsOfTheseTests) {
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TPINFER_TEST_DATA) / "models")) {
    const Checkpoint checkpoint = Checkpoint::open(entry.path(), Log());
    EXPECT_GT(checkpoint.tensors().size(), 5U) << entry.path();
    std::uint64_t sum = 0;
    for (const auto& file : checkpoint.files()) sum += file.header_bytes;
    for (const auto& tensor : checkpoint.tensors()) sum += tensor.bytes;
    EXPECT_EQ(sum, checkpoint.file_bytes()) << entry.path();
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace tpinfer
