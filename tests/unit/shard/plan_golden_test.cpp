#include <gtest/gtest.h>

#include "sha256.hpp"
#include "sparse_model.hpp"

namespace tpinfer {
namespace {

// "*" all of it, "-" nothing, else AXIS:START+COUNT,... as the goldens write it.
std::string slice_text(const PlannedTensor& tensor, const PlannedSlice& slice) {
  if (slice.ranges.empty()) return "-";
  if (slice.extent() == tensor.shape[static_cast<std::size_t>(slice.axis)]) return "*";
  std::vector<std::string> parts;
  for (const Range& range : slice.ranges) parts.push_back(fmt::format("{}+{}", range.begin, range.count()));
  return fmt::format("{}:{}", slice.axis, fmt::join(parts, ","));
}

std::string config_of(const Json& golden) {
  const Json& dims = golden["dims"];
  return fmt::format(
      R"({{"hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
      "intermediate_size": {}, "vocab_size": {}, "head_dim": {}}})",
      dims["hidden"].dump(), dims["layers"].dump(), dims["query_heads"].dump(), dims["kv_heads"].dump(),
      golden["tensors"]["model.layers.0.mlp.gate_proj.weight"]["shape"][0].dump(), dims["vocab"].dump(),
      dims["head_dim"].dump());
}

DType stored_type(const Json& golden) {
  return *dtype_from_safetensors(golden["tensors"]["model.norm.weight"]["dtype"].get<std::string>());
}

// A model and the folder that a golden describes, its weights a hole.
struct GoldenModel {
  explicit GoldenModel(const Json& golden) : spec(spec_with(config_of(golden))) {
    std::vector<StoredEntry> entries = entries_of(spec, stored_type(golden));
    const auto buffers = golden["whole"]["ignored_tensors"].get<std::int64_t>();
    for (std::int64_t layer = 0; layer < buffers; ++layer)
      entries.push_back({fmt::format("model.layers.{}.self_attn.rotary_emb.inv_freq", layer), DType::float32, {64}});
    write_sparse_model(folder.path(), entries);
    checkpoint = Checkpoint::open(folder.path(), Log());
    claims = claim_tensors(spec, checkpoint, Log());
  }
  test_files::TemporaryFolder folder;
  ModelSpec spec;
  Checkpoint checkpoint;
  Claims claims;
};

using RoleBytes = std::map<std::string, std::uint64_t>;

Range range_of(const Json& first_and_count) {
  const auto first = first_and_count[0].get<std::int64_t>();
  return {first, first + first_and_count[1].get<std::int64_t>()};
}

void expect_rank(const Json& golden, const ShardingPlan& plan, std::size_t r) {
  const Json& expected = golden["per_rank"][r];
  const PlannedRank& rank = plan.per_rank[r];
  EXPECT_EQ(rank.weights_bytes, expected["bytes"].get<std::uint64_t>());
  EXPECT_EQ(rank.file_bytes, expected["bytes"].get<std::uint64_t>());
  EXPECT_EQ(rank.share.query_heads, range_of(expected["query_heads"]));
  EXPECT_EQ(rank.share.kv_heads, range_of(expected["kv_heads"]));
  EXPECT_EQ(rank.bytes_by_role, expected["bytes_by_role"].get<RoleBytes>());
  // every tensor, not only the listed ones: the golden has a hash over all of them
  std::string lines;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t)
    lines += plan.tensors[t].name + "\t" + slice_text(plan.tensors[t], plan.slices[t][r]) + "\n";
  EXPECT_EQ(sha256_hex(lines), expected["digest"].get<std::string>());
}

void expect_listed_tensors(const Json& golden, const ShardingPlan& plan) {
  std::size_t found = 0;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    const auto listed = golden["tensors"].find(tensor.name);
    if (listed == golden["tensors"].end()) continue;
    ++found;
    EXPECT_EQ(tensor.role, (*listed)["role"].get<std::string>()) << tensor.name;
    EXPECT_EQ(split_name(tensor.split), (*listed)["split"].get<std::string>()) << tensor.name;
    EXPECT_EQ(safetensors_name(tensor.dtype), (*listed)["dtype"].get<std::string>()) << tensor.name;
    EXPECT_EQ(tensor.shape, (*listed)["shape"].get<std::vector<std::int64_t>>()) << tensor.name;
    for (std::size_t r = 0; r < plan.per_rank.size(); ++r)
      EXPECT_EQ(slice_text(tensor, plan.slices[t][r]), (*listed)["ranks"][r].get<std::string>()) << tensor.name;
  }
  EXPECT_EQ(found, golden["tensors"].size());
}

class GoldenPlan : public testing::TestWithParam<const char*> {};

TEST_P(GoldenPlan, IsOurs) {
  const auto file = [](int ranks) {
    return fmt::format("{}/plans/{}.tp{}.json", TPINFER_TEST_DATA, GetParam(), ranks);
  };
  const GoldenModel model(read_json_file(file(1)));
  for (const int ranks : {1, 2, 3, 4, 6, 8}) {
    SCOPED_TRACE(ranks);
    const Json golden = read_json_file(file(ranks));
    const ShardingPlan plan =
        make_sharding_plan(model.spec, model.checkpoint, model.claims, ranks, stored_type(golden));
    const Json& whole = golden["whole"];
    ASSERT_EQ(plan.tensors.size(), whole["tensors"].get<std::size_t>());
    EXPECT_EQ(plan.ignored.size(), whole["ignored_tensors"].get<std::size_t>());
    EXPECT_EQ(plan.parameters, whole["elements"].get<std::uint64_t>());
    std::uint64_t sum = 0;
    for (std::size_t r = 0; r < plan.per_rank.size(); ++r) {
      expect_rank(golden, plan, r);
      sum += plan.per_rank[r].weights_bytes;
    }
    EXPECT_EQ(sum, golden["sum_check"]["sum_over_ranks"].get<std::uint64_t>());
    if (ranks == 1) {
      EXPECT_EQ(sum, whole["bytes"].get<std::uint64_t>());
    }
    expect_listed_tensors(golden, plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenPlan,
                         testing::Values("llama-2-13b", "llama-2-13b-fp32", "llama-2-70b", "llama-3-70b"));

TEST(GoldenPlan, ThirteenGigabytesEachInsteadOfFiftyTwo) {
  const GoldenModel model(read_json_file(TPINFER_TEST_DATA "/plans/llama-2-13b.tp4.json"));  // stored as float16
  const ShardingPlan plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, 4, DType::float32);
  for (const PlannedRank& rank : plan.per_rank) {
    EXPECT_EQ(rank.weights_bytes, 13'017'108'480U);  // 13.02 GB
    EXPECT_EQ(rank.file_bytes, 6'508'554'240U);
  }
}

}  // namespace
}  // namespace tpinfer
