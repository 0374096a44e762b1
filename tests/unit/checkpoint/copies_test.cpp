// A tensor in two shards: the same bytes are a warning, anything else is refused.
#include "model_folder.hpp"

namespace tpinfer {
namespace {

using test_files::complaint;
using test_files::f32_entry;
using test_files::header_of;
using test_files::length_field;
using test_files::mentions;
using test_files::TemporaryFolder;
using test_files::write_file;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::int64_t kRows = 600;  // of 1024: more than two blocks of the comparison
constexpr std::int64_t kCols = 1024;
constexpr std::size_t kBytes = 4 * kRows * kCols;

/// Shards one, two and three of the tensors `a`, `b`, `c`, each with a copy of `shared`, which the index says is in
/// the second; and what opening it warns of.
struct Shards {
  Shards() {
    for (const auto& [file, own] : {std::pair{"one", "a"}, {"two", "b"}, {"three", "c"}})
      write(file, header_of({f32_entry(own, 1, 1, 0), f32_entry("shared", kRows, kCols, 4)}),
            std::string(kBytes, '\x11'));
    index("two");
  }
  void index(const std::string& file_of_shared) const {
    write_file(folder / kIndex,
               fmt::format(R"({{"weight_map":{{"a":"one","b":"two","c":"three","shared":"{}"}}}})", file_of_shared));
  }
  void write(const std::string& file, const std::string& header, const std::string& shared) const {
    write_file(folder / file, length_field(header.size()) + header + "own " + shared);
  }
  Checkpoint open() {
    warnings.clear();
    return Checkpoint::open(folder.path(), Log([this](LogLevel level, const std::string& text) {
                              if (level == LogLevel::warning) warnings.push_back(text);
                            }));
  }
  std::string refused() {
    return complaint([this] { open(); });
  }

  TemporaryFolder folder;
  std::vector<std::string> warnings;
};

TEST(Copies, OfTheSameBytesAreOneWarning) {
  Shards shards;
  for (const std::string listed : {"two", "three", "one"}) {
    shards.index(listed);
    const Checkpoint checkpoint = shards.open();
    EXPECT_EQ(checkpoint.tensors().size(), 4U);
    EXPECT_EQ(checkpoint.files()[checkpoint.find("shared")->file].name, listed);
    ASSERT_EQ(shards.warnings.size(), 1U);
    EXPECT_TRUE(mentions(shards.warnings[0], {kIndex, "\"shared\" is in " + listed, "with the same bytes"}));
  }
}

TEST(Copies, OfOtherBytesAreRefusedWithBothFiles) {
  for (const std::size_t at : {std::size_t{0}, kBytes / 2, kBytes - 1})
    for (const auto& [file, own] : {std::pair{"one", "a"}, {"three", "c"}}) {
      Shards shards;
      std::string other(kBytes, '\x11');
      other[at] = '\x12';
      shards.write(file, header_of({f32_entry(own, 1, 1, 0), f32_entry("shared", kRows, kCols, 4)}), other);
      EXPECT_TRUE(mentions(shards.refused(), {kIndex, "\"shared\"", "two", file, "different bytes"}));
    }
}

TEST(Copies, OfAnotherTypeOrShapeAreRefusedByTheirHeaders) {
  Shards shards;
  const std::string same(kBytes, '\x11');
  shards.write("one", header_of({f32_entry("a", 1, 1, 0), f32_entry("shared", kCols, kRows, 4)}), same);
  EXPECT_TRUE(mentions(shards.refused(), {"\"shared\"", "one", "two", "[600, 1024]", "[1024, 600]"}));
  const std::string whole =
      fmt::format(R"("shared":{{"dtype":"I32","shape":[{},{}],"data_offsets":[4,{}]}})", kRows, kCols, 4 + kBytes);
  shards.write("one", header_of({f32_entry("a", 1, 1, 0), whole}), same);
  EXPECT_TRUE(mentions(shards.refused(), {"\"shared\"", "one", "two", "I32", "F32"}));
}

TEST(Copies, ThatTheIndexKnowsNothingOfAreRefused) {
  Shards shards;
  shards.index("nowhere");
  EXPECT_TRUE(mentions(shards.refused(), {kIndex, "nowhere"}));
  write_file(shards.folder / kIndex, R"({"weight_map":{"a":"one","b":"two","c":"three"}})");
  EXPECT_TRUE(mentions(shards.refused(), {kIndex, "does not list", "\"shared\""}));
}

}  // namespace
}  // namespace tpinfer
