#include "runtime/step_inputs.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tpinfer {
namespace {

using Ints = std::vector<std::int32_t>;

// Sequences of 2 and 1 rows; logits of the last row of each.
Step two_sequences() {
  Step step;
  step.clear();
  step.tokens = {5, 6, 7};
  step.positions = {10, 11, 30};
  step.slots = {26, 27, 78};
  step.row_begin = {0, 2, 3};
  step.block_table = {1, -1, 9, 4};
  step.table_width = 2;
  step.logit_rows = {1, 2};
  return step;
}

Ints ints(const std::int32_t* begin, std::int64_t count) { return {begin, begin + count}; }

TEST(StepInputs, LieInOnePieceWithTokensAndSlotsInFront) {
  StepInputs inputs(100);
  inputs.fill(two_sequences());
  const StepBatch batch = inputs.batch(inputs.all().data());
  EXPECT_EQ(ints(batch.tokens, 3), (Ints{5, 6, 7}));
  EXPECT_EQ(ints(batch.slots, 3), (Ints{26, 27, 78}));
  EXPECT_EQ(ints(batch.positions, 3), (Ints{10, 11, 30}));
  EXPECT_EQ(ints(batch.row_begin, 3), (Ints{0, 2, 3}));
  EXPECT_EQ(ints(batch.block_table, 4), (Ints{1, -1, 9, 4}));
  EXPECT_EQ(ints(inputs.logit_index(inputs.all().data()), 2), (Ints{1, 2}));
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(batch.max_rows, 2);
  EXPECT_EQ(batch.max_context, 31);
  EXPECT_EQ(inputs.logit_rows(), 2);
  EXPECT_EQ(inputs.all().size(), 18U);
}

TEST(StepInputs, PaddingHasNoSlotAndNoRows) {
  StepInputs inputs(100);
  inputs.fill(two_sequences(), {.rows = 5, .table_width = 3});
  const StepBatch batch = inputs.batch(inputs.all().data());
  EXPECT_EQ(batch.rows, 5);
  EXPECT_EQ(batch.sequences, 4);
  EXPECT_EQ(ints(batch.tokens, 5), (Ints{5, 6, 7, 0, 0}));
  EXPECT_EQ(ints(batch.slots, 5), (Ints{26, 27, 78, -1, -1}));
  EXPECT_EQ(ints(batch.positions, 5), (Ints{10, 11, 30, 0, 0}));
  EXPECT_EQ(ints(batch.row_begin, 5), (Ints{0, 2, 3, 3, 3}));
  EXPECT_EQ(ints(batch.block_table, 12), (Ints{1, -1, -1, 9, 4, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(ints(inputs.logit_index(inputs.all().data()), 4), (Ints{1, 2, 0, 0}));
  EXPECT_EQ(inputs.logit_rows(), 2);
}

TEST(StepInputs, TokensMayComeLaterAndLeaveRowsOut) {
  StepInputs inputs(100);
  inputs.fill(two_sequences(), {.rows = 4, .table_width = 2});
  const Ints before(inputs.all().begin(), inputs.all().end());
  inputs.put_tokens(Ints{100, -1, 102});
  EXPECT_EQ(Ints(inputs.changed_by_tokens().begin(), inputs.changed_by_tokens().end()),
            (Ints{100, 0, 102, 0, 26, -1, 78, -1}));
  EXPECT_TRUE(std::ranges::equal(inputs.all().subspan(8), std::span(before).subspan(8)));
  EXPECT_THROW(inputs.put_tokens(Ints{1, 2, 3, 4}), Error);
}

}  // namespace
}  // namespace tpinfer
