#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "checkpoint/safetensors_header.hpp"
#include "model_folder.hpp"

namespace tpinfer {
namespace {

using test_files::complaint;
using test_files::f32_entry;
using test_files::mentions;

std::vector<TensorInfo> parse(std::string_view json, std::uint64_t data_bytes, std::uint64_t data_start = 1000) {
  return parse_safetensors_header(json, "w.safetensors", 7, data_start, data_bytes);
}

std::string refusal(std::string_view json, std::uint64_t data_bytes = 24) {
  return complaint([&] { parse(json, data_bytes); });
}

// A header of one tensor "a" whose entry is `fields`.
std::string one(std::string_view fields) { return fmt::format("{{\"a\":{{{}}}}}", fields); }

TEST(Header, SoundOnesAreReadInNameOrder) {
  const auto tensors = parse(
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"z\":{\"shape\":[2,3],\"dtype\":\"BF16\",\"data_offsets\":[0,12]},"
      "\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[12,20]},"
      "\"empty\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[12,12]},"
      "\"m\":{\"data_offsets\":[20,21],\"dtype\":\"BOOL\",\"shape\":[1,1,1]}}   \n",
      21);
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].dtype, DType::int64);
  EXPECT_TRUE(tensors[0].shape.empty());
  EXPECT_EQ(tensors[0].offset, 1012U);
  EXPECT_EQ(tensors[0].bytes, 8U);
  EXPECT_EQ(tensors[1].name, "empty");
  EXPECT_EQ(tensors[1].bytes, 0U);
  EXPECT_EQ(tensors[2].name, "m");
  EXPECT_EQ(tensors[2].shape, (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_EQ(tensors[3].name, "z");
  EXPECT_EQ(tensors[3].dtype, DType::bfloat16);
  EXPECT_EQ(tensors[3].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensors[3].offset, 1000U);
  EXPECT_EQ(tensors[3].file, 7U);
  EXPECT_TRUE(parse("{}", 0).empty());
  EXPECT_TRUE(parse("{\"__metadata__\":null}", 0).empty());
}

struct Bad {
  const char* name;
  std::string json;
  std::vector<std::string_view> words;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

const std::string kD = "\"dtype\":\"F32\",";
const std::string kS = "\"shape\":[2,3],";
const std::string kO = "\"data_offsets\":[0,24]";

std::string name_of(const ::testing::TestParamInfo<Bad>& test) { return test.param.name; }

class BadHeader : public ::testing::TestWithParam<Bad> {};

TEST_P(BadHeader, IsRefusedWithASentence) {
  const std::string text = refusal(GetParam().json);
  EXPECT_TRUE(text.starts_with("w.safetensors: ")) << text;
  for (const std::string_view word : GetParam().words) EXPECT_TRUE(mentions(text, {word}));
  EXPECT_LT(text.size(), 600U);
}

INSTANTIATE_TEST_SUITE_P(
    Json, BadHeader,
    ::testing::Values(Bad{"not_json", "{\"a\" 5}", {"not valid JSON at byte"}},
                      Bad{"cut", "{\"a\":{\"dtype\":\"F32\"", {"not valid"}},
                      Bad{"garbage_after", one(kD + kS + kO) + " more", {"not valid JSON"}},
                      Bad{"second_document", one(kD + kS + kO) + "{}", {"not valid JSON"}},
                      Bad{"nan", one(kD + "\"shape\":[NaN,3]," + kO), {"not valid JSON"}},
                      Bad{"not_utf8", "{\"a\xff\xfe\":{" + kD + kS + kO + "}}", {"UTF-8"}},
                      Bad{"list", "[" + one(kD + kS + kO) + "]", {"must be a JSON object"}},
                      Bad{"deep_metadata", "{\"__metadata__\":" + std::string(200000, '['), {"__metadata__", "a list"}},
                      Bad{"deep_shape", one(kD + "\"shape\":" + std::string(200000, '[')), {"\"a\"", "shape"}},
                      Bad{"metadata_twice", "{\"__metadata__\":{},\"__metadata__\":{}}", {"__metadata__", "twice"}},
                      Bad{"metadata_of_numbers", "{\"__metadata__\":{\"a\":1}}", {"__metadata__", "strings"}},
                      Bad{"long_garbage", "{\"" + std::string(100000, 'x'), {"not valid JSON"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Entry, BadHeader,
    ::testing::Values(
        Bad{"number", "{\"a\":5}", {"\"a\"", "must be an object", "5"}}, Bad{"null", "{\"a\":null}", {"\"a\"", "null"}},
        Bad{"string", "{\"a\":\"F32\"}", {"\"a\"", "\"F32\""}},
        Bad{"without_dtype", one(kS + kO), {"\"a\"", "no \"dtype\""}},
        Bad{"without_shape", one(kD + kO), {"\"a\"", "no \"shape\""}},
        Bad{"without_offsets", one("\"dtype\":\"F32\",\"shape\":[2,3]"), {"\"a\"", "no \"data_offsets\""}},
        Bad{"unknown_key", one("\"strides\":[1]," + kD + kS + kO), {"\"a\"", "\"strides\""}},
        Bad{"field_twice", one(kD + kD + kS + kO), {"\"a\"", "\"dtype\" twice"}},
        Bad{"tensor_twice", "{\"a\":{" + kD + kS + kO + "},\"a\":{" + kD + kS + kO + "}}", {"\"a\" twice"}},
        Bad{"dtype_unknown", one("\"dtype\":\"F31\"," + kS + kO), {"\"a\"", "\"F31\"", "not known"}},
        Bad{"dtype_number", one("\"dtype\":32," + kS + kO), {"\"a\"", "dtype", "string", "32"}},
        Bad{"dtype_list", one("\"dtype\":[\"F32\"]," + kS + kO), {"\"a\"", "dtype"}},
        Bad{"control_letters", "{\"a\\u001b[31m\\n\":5}", {"\\x1b[31m\\x0a"}},
        Bad{"long_name", "{\"" + std::string(100000, 'n') + "\":5}", {"nnn...\""}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Shape, BadHeader,
    ::testing::Values(
        Bad{"negative", one(kD + "\"shape\":[-2,-3]," + kO), {"\"a\"", "shape", "-2"}},
        Bad{"fraction", one(kD + "\"shape\":[2.5,3]," + kO), {"\"a\"", "shape", "2.5"}},
        Bad{"string", one(kD + "\"shape\":[\"2\",3]," + kO), {"\"a\"", "shape", "\"2\""}},
        Bad{"whole_number", one(kD + "\"shape\":6," + kO), {"\"a\"", "shape", "list"}},
        Bad{"object", one(kD + "\"shape\":{}," + kO), {"\"a\"", "shape", "object"}},
        Bad{"product_wraps",
            one(kD + "\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"),
            {"\"a\"", "too large", "4294967296, 4294967296"}},
        Bad{"bytes_wrap", one(kD + "\"shape\":[4611686018427387904],\"data_offsets\":[0,0]"), {"\"a\"", "too large"}},
        Bad{"beyond_int64",
            one(kD + "\"shape\":[9223372036854775808,0],\"data_offsets\":[0,0]"),
            {"\"a\"", "too large"}},
        Bad{"beyond_uint64", one(kD + "\"shape\":[36893488147419103232]," + kO), {"\"a\"", "36893488147419103232"}},
        Bad{"many_dimensions",
            one(kD + "\"shape\":[" + fmt::format("{}", fmt::join(std::vector<int>(65, 1), ",")) + "]," + kO),
            {"\"a\"", "64"}},
        Bad{"other_size", one("\"dtype\":\"F16\"," + kS + kO), {"\"a\"", "24 bytes", "F16", "[2, 3]", "12"}}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Offsets, BadHeader,
    ::testing::Values(
        Bad{"reversed", one(kD + kS + "\"data_offsets\":[24,0]"), {"\"a\"", "[24, 0]", "end before they begin"}},
        Bad{"negative", one(kD + kS + "\"data_offsets\":[-24,0]"), {"\"a\"", "-24"}},
        Bad{"one", one(kD + kS + "\"data_offsets\":[24]"), {"\"a\"", "2 numbers"}},
        Bad{"three", one(kD + kS + "\"data_offsets\":[0,24,24]"), {"\"a\"", "more than 2"}},
        Bad{"not_at_zero", one(kD + kS + "\"data_offsets\":[8,32]"), {"\"a\"", "begins at byte 8"}},
        Bad{"beyond_file",
            one(kD + "\"shape\":[2,4],\"data_offsets\":[0,32]"),
            {"\"a\"", "1024 bytes", "need 32 and a header of 1000"}},
        Bad{"far_beyond",
            one("\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[18446744073709551591,18446744073709551615]"),
            {"\"a\"", "18446744073709551591"}},
        Bad{"bytes_after", one(kD + "\"shape\":[2,2],\"data_offsets\":[0,16]"), {"8 bytes", "1016", "1024"}},
        Bad{"hole",
            "{" + f32_entry("a", 1, 2, 0) + "," + f32_entry("b", 1, 2, 16) + "}",
            {"\"a\"", "\"b\"", "8 bytes"}},
        Bad{"overlap",
            "{" + f32_entry("a", 1, 4, 0) + "," + f32_entry("b", 1, 3, 12) + "}",
            {"\"a\"", "\"b\"", "overlap"}},
        Bad{"same_range", "{" + f32_entry("a", 2, 3, 0) + "," + f32_entry("b", 2, 3, 0) + "}", {"overlap"}},
        Bad{"empty_inside_another", "{" + f32_entry("a", 2, 3, 0) + "," + f32_entry("b", 0, 3, 8) + "}", {"overlap"}}),
    name_of);

// Whatever bytes are changed, the answer is a complaint or tensors that tile the data.
TEST(Header, RandomDamageIsRefusedOrHarmless) {
  const std::string sound = "{\"__metadata__\":{\"format\":\"pt\"}," + f32_entry("a", 2, 3, 0) + "," +
                            f32_entry("bb", 1, 2, 24) + "," + f32_entry("c", 5, 1, 32) + "}";
  ASSERT_EQ(parse(sound, 52).size(), 3U);
  std::mt19937 random(20240117);
  const std::string letters = "\"{}[],:0123456789-.e \xff\\anu";
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = sound;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      const std::size_t at = random() % text.size();
      const char letter = letters[random() % letters.size()];
      if (random() % 3 == 0)
        text.erase(at, 1 + random() % 4);
      else if (random() % 2 == 0)
        text.insert(at, 1, letter);
      else
        text[at] = letter;
    }
    try {
      std::uint64_t bytes = 0;
      for (const TensorInfo& t : parse(text, 52)) {
        bytes += t.bytes;
        EXPECT_LE(t.offset + t.bytes, 1052U);
      }
      EXPECT_EQ(bytes, 52U) << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::input) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

TEST(Header, AHundredThousandTensorsAreQuick) {
  std::string json = "{";
  for (int i = 0; i < 100000; ++i) {
    if (i) json += ',';
    json += f32_entry(fmt::format("model.layers.{}.mlp.experts.{}.down_proj.weight", i / 512, i % 512), 1, 2,
                      static_cast<std::uint64_t>(i) * 8);
  }
  json += "}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse(json, 800000).size(), 100000U);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << "[ measured ] " << json.size() / 1000 << " kB of header in " << took.count() << " s\n";
}

}  // namespace
}  // namespace tpinfer
