#include "prompts/selection.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "core/ordered_work.hpp"
#include "prompts/csv.hpp"
#include "prompts/read_prompts.hpp"

namespace tpinfer {
namespace {

using test_files::complaint;
using test_files::mentions;
using test_files::parse;

std::string taken(const SelectJob& job, int prompts) {
  Selection selection(job);
  std::string out;
  for (int i = 0; i < prompts && !selection.is_over(); ++i)
    if (selection.take()) out += std::to_string(i) + " ";
  return out;
}

TEST(Selection, OffsetAndLimitFirstThenTheShard) {
  EXPECT_EQ(taken({}, 3), "0 1 2 ");
  EXPECT_EQ(taken({.offset = 1, .limit = 2, .shard = {}}, 9), "1 2 ");
  EXPECT_EQ(taken({.offset = 0, .limit = {}, .shard = "1/3"}, 8), "0 3 6 ");
  EXPECT_EQ(taken({.offset = 0, .limit = {}, .shard = "3/3"}, 8), "2 5 ");
  EXPECT_EQ(taken({.offset = 2, .limit = 4, .shard = "2/3"}, 99), "3 ");
  // nothing is read after the last
  Selection selection({.offset = 0, .limit = 2, .shard = "1/2"});
  EXPECT_TRUE(selection.take());
  EXPECT_FALSE(selection.take());
  EXPECT_TRUE(selection.is_over());
}

TEST(Selection, TheShardsTogetherAreAllPrompts) {
  for (const int count : {1, 2, 5, 16}) {
    std::map<int, int> seen;
    for (int part = 1; part <= count; ++part) {
      Selection selection({.offset = 3, .limit = 40, .shard = fmt::format("{}/{}", part, count)});
      for (int i = 0; i < 60; ++i)
        if (selection.take()) ++seen[i];
    }
    ASSERT_EQ(seen.size(), 40U);
    EXPECT_EQ(seen.begin()->first, 3);
    for (const auto& [prompt, times] : seen) EXPECT_EQ(times, 1) << prompt;
  }
}

TEST(Selection, WhatIsNoPart) {
  for (const char* text : {"0/3", "4/3", "1/0", "x/3", "99999999999999999999/3"})
    EXPECT_TRUE(mentions(complaint([&] { parse_shard(text); }, ExitCode::usage), {"prompts.select.shard", text}));
}

class JobArray : public testing::Test {
 protected:
  static constexpr const char* kNames[] = {"ID", "COUNT", "MIN", "MAX", "STEP"};
  void set(const char* id, const char* count, const char* min, const char* max, const char* step) {
    const char* values[] = {id, count, min, max, step};
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      const std::string name = std::string("SLURM_ARRAY_TASK_") + kNames[i];
      values[i] ? ::setenv(name.c_str(), values[i], 1) : ::unsetenv(name.c_str());
    }
  }
  void TearDown() override { set(nullptr, nullptr, nullptr, nullptr, nullptr); }
};

TEST_F(JobArray, TheTasksPlaceIsTheShard) {
  set("5", "4", "2", "11", "3");
  EXPECT_EQ(parse_shard("slurm_array"), (Shard{1, 4}));
  set("0", "3", "0", "2", "1");
  EXPECT_EQ(parse_shard("slurm_array"), (Shard{0, 3}));
  set("2", "3", nullptr, nullptr, nullptr);
  EXPECT_EQ(parse_shard("slurm_array"), (Shard{2, 3}));
}

TEST_F(JobArray, WhatIsNoPlaceIsRefused) {
  const auto fault = [] { return complaint([] { parse_shard("slurm_array"); }, ExitCode::usage); };
  EXPECT_TRUE(mentions(fault(), {"SLURM_ARRAY_TASK_ID", "not set"}));
  set("x", "3", "0", "2", "1");
  EXPECT_TRUE(mentions(fault(), {"SLURM_ARRAY_TASK_ID", "\"x\""}));
  set("3", "3", "1", "7", "1");  // --array=1,3,7
  EXPECT_TRUE(mentions(fault(), {"unbroken range"}));
  set("9", "3", "1", "3", "1");
  EXPECT_TRUE(mentions(fault(), {"unbroken range"}));
}

TEST(Csv, FieldsAndLines) {
  using Fields = std::vector<std::string>;
  EXPECT_EQ(split_csv("a,b", ""), (Fields{"a", "b"}));
  EXPECT_EQ(split_csv("", ""), Fields{""});
  EXPECT_EQ(split_csv(",", ""), (Fields{"", ""}));
  EXPECT_EQ(split_csv("\"\",\"a,\"\"b\"\"\nc\",\"\"\"\"", ""), (Fields{"", "a,\"b\"\nc", "\""}));
  EXPECT_EQ(split_csv(" \"a\" ,5\" x", ""), (Fields{" \"a\" ", "5\" x"}));
  EXPECT_TRUE(mentions(complaint([] { split_csv("\"a\"b", "f:1"); }), {"f:1: ", "closing quote"}));
  EXPECT_TRUE(mentions(complaint([] { split_csv("a,\"b", "f:1"); }), {"f:1: ", "never closed"}));
  const auto open = [](std::initializer_list<std::string_view> lines) {
    CsvScanner scanner;
    bool last = false;
    for (const std::string_view line : lines) last = scanner.is_open_after(line);
    return last;
  };
  EXPECT_FALSE(open({"a,b"}));
  EXPECT_FALSE(open({"a,5\" x"}));
  EXPECT_TRUE(open({"a,\"b"}));
  EXPECT_FALSE(open({"a,\"b", "c\",d"}));
  EXPECT_TRUE(open({"a,\"b", "c\"\"d"}));
  EXPECT_TRUE(open({"\"a\",\""}));
  EXPECT_FALSE(open({"\"\"\"\""}));
}

TEST(OrderedWork, OutcomesComeInTheOrderOfTheItems) {
  for (const int threads : {1, 2, 5}) {
    std::vector<int> got;
    OrderedWork<int, int> work(
        threads,
        [](int&& i) {
          if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
          return 2 * i;
        },
        [&](int&& out) { got.push_back(out); });
    for (int i = 0; i < 500; ++i) work.push(int(i));
    work.finish();
    ASSERT_EQ(got.size(), 500U);
    for (int i = 0; i < 500; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], 2 * i);
  }
}

TEST(OrderedWork, AFaultComesOutAndNothingHangs) {
  for (const int threads : {1, 3}) {
    const std::string fault = complaint([&] {
      OrderedWork<int, int> work(
          threads, [](int&& i) { return i == 40 ? throw Error(ExitCode::input, "forty") : i; }, [](int&&) {});
      for (int i = 0; i < 100; ++i) work.push(int(i));
      work.finish();
    });
    EXPECT_EQ(fault, "forty");
  }
}

// HDF5 files are written by Python in tests/golden; what is none is told here.
TEST(Hdf5Prompts, AFileThatIsNone) {
  EXPECT_TRUE(mentions(complaint([] { parse("\x89HDF\r\n\x1a\n and then not", "p.data"); }), {"p.data"}));
  EXPECT_TRUE(mentions(complaint([] { parse(test_files::packed("\x89HDF\r\n\x1a\n..."), "p.h5.gz"); }),
                       {"p.h5.gz", "plain file"}));
}

}  // namespace
}  // namespace tpinfer
