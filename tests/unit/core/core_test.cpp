#include <gtest/gtest.h>

#include <cmath>

#include "core/bytes.hpp"
#include "core/checked_cast.hpp"
#include "core/dtype.hpp"
#include "core/exact_sum.hpp"
#include "core/json.hpp"
#include "core/text_distance.hpp"
#include "core/unique_handle.hpp"
#include "core/units.hpp"

namespace tpinfer {
namespace {

TEST(Json, RefusesDuplicateKeysDeepNestingAndBadText) {
  EXPECT_EQ(parse_json(R"({"b":1,"a":[2,{"c":3}]})", "f").dump(), R"({"b":1,"a":[2,{"c":3}]})");
  EXPECT_THROW(parse_json(R"({"a":1,"a":2})", "f"), Error);
  EXPECT_THROW(parse_json(std::string(200, '['), "f"), Error);
  EXPECT_THROW(parse_json("{\"a\":NaN}", "f"), Error);
  EXPECT_THROW(parse_json("{\"a\":\"\xff\"}", "f"), Error);
  EXPECT_THROW(parse_json("{} x", "f"), Error);
  EXPECT_THROW(parse_json("", "f"), Error);
}

// What the parser read last ends within a character.
TEST(Json, ComplaintIsValidUtf8) {
  try {
    parse_json("{\"a\": 2\xC3\xA9}", "f");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string_view(error.what()).find_first_of("\xC3\xA9"), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view(error.what()).find("not valid JSON at byte 8"), std::string_view::npos) << error.what();
  }
}

TEST(Json, ComplaintNamesTheFile) {
  try {
    parse_json("{\"a\" 1}", "dir/config.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::input);
    EXPECT_NE(std::string(e.what()).find("dir/config.json"), std::string::npos);
  }
}

TEST(DType, HalfConversionsAreExactBothWays) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float16_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(value))));
      continue;
    }
    ASSERT_EQ(float_to_float16(value), bits);
    ASSERT_EQ(value, static_cast<float>(static_cast<double>(value)));
  }
  EXPECT_EQ(float_to_float16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_float16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_float16(1.0F + 0x1p-11F), 0x3c00);  // a tie goes to even
  EXPECT_EQ(float_to_float16(1.0F + 0x1.8p-10F), 0x3c02);
  EXPECT_EQ(float_to_float16(0x1p-25F), 0);
  EXPECT_EQ(float_to_float16(0x1.1p-25F), 1);
}

TEST(DType, BfloatRoundsToNearestEven) {
  EXPECT_EQ(float_to_bfloat16(1.0F), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(1.0F + 0x1p-8F), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(1.0F + 0x1.8p-7F), 0x3f82);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::nanf("")))));
}

TEST(ExactSum, GridRoundsTiesToEvenAndPassesNaN) {
  EXPECT_EQ(round_to_grid(0.0F), 0.0);
  EXPECT_EQ(round_to_grid(0x1p-28F), 0x1p-28);
  EXPECT_EQ(round_to_grid(0x1p-29F), 0.0);
  EXPECT_EQ(round_to_grid(0x1.8p-28F), 0x1p-27);
  EXPECT_EQ(round_to_grid(-3.25F), -3.25);
  EXPECT_TRUE(std::isnan(round_to_grid(std::nanf(""))));
  EXPECT_TRUE(std::isinf(round_to_grid(INFINITY)));
}

TEST(Units, SizesAndDurations) {
  EXPECT_EQ(parse_size("80GiB"), 80ULL << 30);
  EXPECT_EQ(parse_size("1.5 GB"), 1500000000ULL);
  EXPECT_EQ(parse_size("4096"), 4096ULL);
  for (const char* bad : {"", "GiB", "-1", "1e3", "5 apples", "1.2.3GB"}) EXPECT_FALSE(parse_size(bad)) << bad;
  EXPECT_EQ(parse_duration("3h30m"), 12600.0);
  EXPECT_EQ(parse_duration("120s"), 120.0);
  EXPECT_EQ(parse_duration("90"), 90.0);
  EXPECT_EQ(parse_duration("500ms"), 0.5);
  EXPECT_EQ(parse_duration("01:00:05"), 3605.0);
  for (const char* bad : {"", "h", "5x", "1h 3", "-3s", "1:2:3:4"}) EXPECT_FALSE(parse_duration(bad)) << bad;
  EXPECT_EQ(format_bytes(13017108480ULL), "13.02 GB");
  EXPECT_EQ(format_count(1850000), "1,850,000");
}

TEST(Bytes, ReaderGivesBackAndRefusesShortInput) {
  ByteWriter w;
  w.put(7);
  w.put(std::string_view("text"));
  w.put(std::vector<std::int32_t>{1, 2, 3});
  const auto bytes = w.take();
  ByteReader r(bytes);
  EXPECT_EQ(r.get<int>(), 7);
  EXPECT_EQ(r.get_string(), "text");
  EXPECT_EQ(r.get_list<std::int32_t>(), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_TRUE(r.done());
  ByteReader cut(std::span<const std::byte>(bytes).first(bytes.size() - 1));
  cut.get<int>();
  cut.get_string();
  EXPECT_THROW(cut.get_list<std::int32_t>(), Error);
}

TEST(CheckedCast, RefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_cast<int>(std::int64_t{5}), 5);
  EXPECT_THROW(checked_cast<int>(std::int64_t{1} << 31), Error);
  EXPECT_THROW(checked_cast<unsigned>(-1), Error);
}

TEST(NearestWord, FindsTypingMistakesOnly) {
  const std::vector<std::string> keys{"max_new_tokens", "temperature", "top_k"};
  EXPECT_EQ(nearest_word("temprature", keys), "temperature");
  EXPECT_EQ(nearest_word("banana", keys), "");
}

int closed = 0;
struct CountingTraits {
  using Handle = int;
  static int empty() noexcept { return -1; }
  static void close(int) noexcept { ++closed; }
};

TEST(UniqueHandle, ClosesOnceAndIsNullAfterMove) {
  closed = 0;
  {
    UniqueHandle<CountingTraits> a(3);
    UniqueHandle<CountingTraits> b(std::move(a));
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
    a = std::move(b);
    EXPECT_EQ(a.get(), 3);
  }
  EXPECT_EQ(closed, 1);
}

}  // namespace
}  // namespace tpinfer
