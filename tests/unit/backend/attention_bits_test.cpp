#include <gtest/gtest.h>

#include "attention_run.hpp"
#include "kernel_sets.hpp"

namespace tpinfer {
namespace {

using test::AttentionRun;
using test::Chunk;
using test::Setting;

constexpr std::int64_t kLength = 540;  // two whole blocks of 256 and a part of a third

class AttentionBits : public testing::TestWithParam<std::tuple<KernelSet, DType, std::int64_t>> {
 protected:
  AttentionBits()
      : setting_{.set = std::get<0>(GetParam()),
                 .dtype = std::get<1>(GetParam()),
                 .heads = {6, 2, 24},
                 .window = std::get<2>(GetParam())},
        whole_(setting_, 1, kLength) {
    whole_.run_sequence(0, kLength, kLength);
  }

  /// Every row of sequence 0 that `run` has computed has the bits of the plain run.
  void expect_same(const AttentionRun& run, std::int64_t at_least) const {
    std::int64_t compared = 0;
    for (const auto& [key, bytes] : run.results()) {
      if (key.first != 0) continue;
      ASSERT_TRUE(bytes == whole_.results().at(key)) << "position " << key.second;
      ++compared;
    }
    EXPECT_GE(compared, at_least);
  }

  Setting setting_;
  AttentionRun whole_;  ///< prefill at once, one thread, blocks of 16
};

TEST_P(AttentionBits, CacheBlockSize) {
  for (const std::int64_t size : {32, 128, 256}) {
    Setting s = setting_;
    s.block_size = size;
    AttentionRun run(s, 1, kLength);
    run.run_sequence(0, kLength, kLength);
    expect_same(run, kLength);
  }
}

TEST_P(AttentionBits, Chunks) {
  for (const std::int64_t chunk : {1, 3, 17, 256}) {
    AttentionRun run(setting_, 1, kLength);
    run.run_sequence(0, kLength, chunk);
    expect_same(run, kLength);
  }
}

TEST_P(AttentionBits, Threads) {
  for (const int threads : {2, 4}) {
    Setting s = setting_;
    s.threads = threads;
    AttentionRun at_once(s, 1, kLength);
    at_once.run_sequence(0, kLength, kLength);
    expect_same(at_once, kLength);
    // A short step last: its blocks are divided over threads.
    AttentionRun decode(s, 1, kLength);
    decode.step({{0, 0, kLength - 3}});
    for (std::int64_t p = kLength - 3; p < kLength; ++p) decode.step({{0, p, 1}});
    expect_same(decode, kLength);
  }
}

TEST_P(AttentionBits, OtherSequences) {
  for (const int threads : {1, 3}) {
    Setting s = setting_;
    s.threads = threads;
    AttentionRun run(s, 4, kLength);
    run.step({{2, 0, 7}, {0, 0, 100}, {1, 0, 300}, {3, 0, 1}});
    run.step({{1, 300, 1}, {2, 7, 1}, {0, 100, kLength - 110}, {3, 1, 30}});
    for (std::int64_t p = kLength - 10; p < kLength; ++p) {
      const std::int64_t other = p - (kLength - 10);
      run.step({{3, 31 + other, 1}, {0, p, 1}, {1, 301 + other, 1}});
    }
    expect_same(run, kLength);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, AttentionBits,
                         testing::Combine(testing::ValuesIn(test::usable_sets()),
                                          testing::Values(DType::float32, DType::float16, DType::bfloat16),
                                          testing::Values<std::int64_t>(0, 7, 100, 300)),
                         [](const auto& named) {
                           return test::test_name(std::get<0>(named.param)) + "_" +
                                  std::string(dtype_name(std::get<1>(named.param))) + "_window" +
                                  std::to_string(std::get<2>(named.param));
                         });

}  // namespace
}  // namespace tpinfer
