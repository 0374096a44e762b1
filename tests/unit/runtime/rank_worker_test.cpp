// What a rank proves about its weights after loading: no more owned than planned, one checksum for one content.
#include "runtime/rank_worker.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/common_checksums.hpp"
#include "runtime/model_folder.hpp"
#include "shard/sparse_model.hpp"

namespace tpinfer {
namespace {

TEST(RankWorker, OwningMoreThanPlannedStopsTheRunWithTheClasses) {
  const test_files::TemporaryFolder folder;
  RunSetup setup;
  setup.spec = spec_with(R"({"hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2048, "vocab_size": 300})");
  write_sparse_model(folder.path(), entries_of(setup.spec, DType::bfloat16));
  const Checkpoint checkpoint = Checkpoint::open(folder.path(), Log());
  const Claims claims = claim_tensors(setup.spec, checkpoint, Log());
  setup.plan = make_sharding_plan(setup.spec, checkpoint, claims, 1, DType::float32);
  setup.threads = 1;
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  RankWorker(setup, *comm, *comm, 0, nullptr).load({});
  PlannedRank& planned = setup.plan.per_rank[0];
  ASSERT_GT(planned.weights_bytes, std::uint64_t{40} << 20) << "much more than the slack for padding";
  planned.weights_bytes /= 2;  // a plan that promised less, for two classes
  planned.bytes_by_role["mlp_gate"] /= 2;
  planned.bytes_by_role["attn_out"] /= 2;
  const std::string told =
      test_files::complaint([&] { RankWorker(setup, *comm, *comm, 0, nullptr).load({}); }, ExitCode::internal);
  EXPECT_TRUE(test_files::mentions(told, {"rank 0 owns", "were planned", "attn_out (", "mlp_gate ("}));
  EXPECT_EQ(told.find("token_embedding"), std::string::npos) << told;
}

/// Sums of a replicated tensor [4, 3] of bytes, given in blocks.
std::vector<std::uint64_t> sums_of(const ModelFolder& model, const ShardingPlan& plan, std::size_t tensor,
                                   const std::vector<std::byte>& bytes, std::vector<Range> blocks) {
  CommonChecksums sums(model.spec, plan, 0);
  for (const Range& rows : blocks)
    sums.add(tensor, 0, rows.begin, 0,
             {.data = bytes.data() + rows.begin * 4,
              .dtype = DType::float32,
              .rows = rows.count(),
              .cols = 1,
              .row_stride = 4,
              .col_stride = 4});
  return sums.take();
}

TEST(CommonChecksums, DependOnTheContentAndNotOnTheBlocks) {
  const ModelFolder model({.path = TPINFER_TEST_DATA "/models/rand-llama-uneven"}, Log());
  const ShardingPlan plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, 2, DType::float32);
  const auto norm = std::ranges::find(plan.tensors, "model.norm.weight", &PlannedTensor::name);
  const auto tensor = static_cast<std::size_t>(norm - plan.tensors.begin());
  const std::int64_t rows = norm->shape[0];
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows) * 4);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const auto of = [&](const std::vector<Range>& blocks) { return sums_of(model, plan, tensor, bytes, blocks); };
  const std::vector<std::uint64_t> whole = of({{0, rows}});
  EXPECT_EQ(of({{0, 5}, {5, rows}}), whole);
  EXPECT_EQ(of({{40, rows}, {0, 1}, {1, 40}}), whole);
  EXPECT_NE(of({{0, rows - 1}}), whole);
  std::swap_ranges(bytes.begin() + 8, bytes.begin() + 12, bytes.begin() + 20);
  EXPECT_NE(of({{0, rows}}), whole) << "two rows have changed places";
  std::swap_ranges(bytes.begin() + 8, bytes.begin() + 12, bytes.begin() + 20);
  EXPECT_EQ(of({{0, rows}}), whole);
  bytes.back() ^= std::byte{1};
  EXPECT_NE(of({{0, rows}}), whole);
}

}  // namespace
}  // namespace tpinfer
