#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "shard/common_parts.hpp"
#include "sparse_model.hpp"

namespace tpinfer {
namespace {

using Ranges = std::vector<Range>;

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  std::int64_t roll(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }

 private:
  std::mt19937 engine_;
};

std::string random_config(Dice& dice) {
  const std::int64_t kv = dice.roll(1, 12);
  const auto flag = [&] { return dice.roll(0, 3) == 0 ? "true" : "false"; };
  return fmt::format(
      R"({{"hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
      "head_dim": {}, "intermediate_size": {}, "vocab_size": {}, "attention_bias": {}, "mlp_bias": {},
      "tie_word_embeddings": {}}})",
      dice.roll(1, 300), dice.roll(1, 2), kv * dice.roll(1, 8), kv, 2 * dice.roll(1, 16),
      dice.roll(1, dice.roll(0, 1) ? 80 : 1500), dice.roll(1, 700), flag(), flag(), flag());
}

// What a rank holds of a tensor, and nothing of it when that is not in the plan.
const Ranges& held(const ShardingPlan& plan, const std::string& name, std::size_t rank) {
  const auto at = std::ranges::find(plan.tensors, name, &PlannedTensor::name);
  EXPECT_NE(at, plan.tensors.end()) << name;
  return plan.slices[static_cast<std::size_t>(at - plan.tensors.begin())][rank].ranges;
}

// How many ranks hold each position of the cut axis.
std::vector<int> holders(const PlannedTensor& tensor, const std::vector<PlannedSlice>& slices) {
  std::vector<int> count(static_cast<std::size_t>(tensor.shape[static_cast<std::size_t>(slices[0].axis)]), 0);
  for (const PlannedSlice& slice : slices)
    for (const Range& range : slice.ranges)
      for (std::int64_t i = range.begin; i < range.end; ++i) ++count.at(static_cast<std::size_t>(i));
  return count;
}

// Each position that several ranks hold is in one common part, with exactly these ranks; the others are in none.
void expect_common_parts(const ModelSpec& spec, const ShardingPlan& plan) {
  const std::vector<CommonPart> parts = common_parts(spec, plan);
  std::size_t next = 0;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    std::vector<std::vector<int>> told(holders(tensor, plan.slices[t]).size());
    for (; next < parts.size() && parts[next].tensor == t; ++next) {
      ASSERT_EQ(parts[next].whole, tensor.split == Split::replicated) << tensor.name;
      for (std::int64_t i = parts[next].range.begin; i < parts[next].range.end; ++i) {
        ASSERT_TRUE(told.at(static_cast<std::size_t>(i)).empty()) << tensor.name << " " << i;
        told[static_cast<std::size_t>(i)] = parts[next].ranks;
      }
    }
    std::vector<std::vector<int>> held(told.size());
    for (int rank = 0; rank < plan.ranks; ++rank)
      for (const Range& range : plan.slices[t][static_cast<std::size_t>(rank)].ranges)
        for (std::int64_t i = range.begin; i < range.end; ++i) held[static_cast<std::size_t>(i)].push_back(rank);
    for (std::size_t i = 0; i < held.size(); ++i) {
      if (held[i].size() == 1 && tensor.split != Split::replicated) held[i].clear();
      ASSERT_EQ(told[i], held[i]) << tensor.name << " " << i << " on " << plan.ranks << " ranks";
    }
  }
  EXPECT_EQ(next, parts.size());
}

void expect_coverage(const ShardingPlan& plan) {
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    const std::string& role = tensor.role;
    const bool replicated = role == "norm" || role == "attn_out_bias" || role == "mlp_down_bias";
    const bool kv = role == "k" || role == "v" || role == "k_bias" || role == "v_bias";
    for (const int count : holders(tensor, plan.slices[t])) {
      if (replicated)
        ASSERT_EQ(count, plan.ranks) << tensor.name;
      else if (kv)
        ASSERT_GE(count, 1) << tensor.name;
      else
        ASSERT_EQ(count, 1) << tensor.name;
    }
    for (const PlannedSlice& slice : plan.slices[t]) {
      ASSERT_EQ(slice.axis, role == "attn_out" || role == "mlp_down" ? 1 : 0) << tensor.name;
      for (std::size_t i = 0; i + 1 < slice.ranges.size(); ++i)
        ASSERT_LT(slice.ranges[i].end, slice.ranges[i + 1].begin) << tensor.name << ": not merged";
    }
  }
}

Ranges scaled(Range heads, std::int64_t width) {
  return heads.count() ? Ranges{{heads.begin * width, heads.end * width}} : Ranges{};
}

// q, k, v and o of a rank belong together, and so do gate, up and down.
void expect_consistency(const ModelSpec& spec, const ShardingPlan& plan) {
  const std::string layer = "model.layers.0.";
  for (std::size_t r = 0; r < plan.per_rank.size(); ++r) {
    const RankShare& share = plan.per_rank[r].share;
    ASSERT_GT(share.query_heads.count(), 0);
    std::set<std::int64_t> needed;
    for (std::int64_t h = share.query_heads.begin; h < share.query_heads.end; ++h) needed.insert(h / spec.group());
    const Range kv{*needed.begin(), *needed.rbegin() + 1};
    ASSERT_EQ(kv.count(), static_cast<std::int64_t>(needed.size()));
    ASSERT_EQ(share.kv_heads, kv);
    // an index of the local KV head must be a division by the local group: whole groups, or one head alone
    ASSERT_TRUE(kv.count() == 1 || share.query_heads.count() == kv.count() * spec.group());
    const Ranges query = scaled(share.query_heads, spec.head_dim);
    ASSERT_EQ(held(plan, layer + "self_attn.q_proj.weight", r), query);
    ASSERT_EQ(held(plan, layer + "self_attn.o_proj.weight", r), query);
    ASSERT_EQ(held(plan, layer + "self_attn.k_proj.weight", r), scaled(kv, spec.head_dim));
    ASSERT_EQ(held(plan, layer + "self_attn.v_proj.weight", r), scaled(kv, spec.head_dim));
    if (spec.attention_bias) {
      ASSERT_EQ(held(plan, layer + "self_attn.k_proj.bias", r), scaled(kv, spec.head_dim));
    }
    const Ranges channels = scaled(share.channels, 1);
    for (const char* name : {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
      ASSERT_EQ(held(plan, layer + name, r), channels) << name;
    ASSERT_EQ(held(plan, "model.embed_tokens.weight", r), scaled(share.vocab, 1));
    if (!spec.tied_head) {
      ASSERT_EQ(held(plan, "lm_head.weight", r), scaled(share.vocab, 1));
    }
  }
}

// Parts differ by at most one unit and the first ranks have more.
void expect_even(const std::vector<std::int64_t>& units, const char* what) {
  ASSERT_TRUE(std::ranges::is_sorted(units, std::greater<>())) << what;
  ASSERT_LE(units.front() - units.back(), 1) << what;
}

void expect_evenness(const ModelSpec& spec, const ShardingPlan& plan) {
  std::vector<std::int64_t> vocab, channels, groups;
  const std::int64_t unit = spec.ffn >= 512 ? 16 : spec.ffn >= 64 ? 4 : 1;
  std::map<std::int64_t, std::vector<std::int64_t>> sharers;  // KV head -> query heads of each rank that shares it
  for (const PlannedRank& rank : plan.per_rank) {
    vocab.push_back(rank.share.vocab.count());
    channels.push_back((rank.share.channels.count() + unit - 1) / unit);
    ASSERT_TRUE(rank.share.channels.begin % unit == 0 || rank.share.channels.count() == 0);
    groups.push_back(rank.share.kv_heads.count());
    sharers[rank.share.kv_heads.begin].push_back(rank.share.query_heads.count());
  }
  expect_even(vocab, "vocabulary");
  expect_even(channels, "channels");
  if (plan.ranks <= spec.kv_heads) {
    expect_even(groups, "KV groups");
  } else {
    std::vector<std::int64_t> ranks_each;
    for (const auto& [kv, heads] : sharers) {
      expect_even(heads, "query heads of one KV head");
      ranks_each.push_back(static_cast<std::int64_t>(heads.size()));
    }
    ASSERT_EQ(static_cast<std::int64_t>(ranks_each.size()), spec.kv_heads);
    expect_even(ranks_each, "ranks of a KV head");
  }
}

void expect_sums(const ShardingPlan& plan) {
  for (std::size_t r = 0; r < plan.per_rank.size(); ++r) {
    std::uint64_t stored = 0;
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) stored += slice_bytes(plan.tensors[t], plan.slices[t][r]);
    const PlannedRank& rank = plan.per_rank[r];
    ASSERT_EQ(rank.file_bytes, stored);
    ASSERT_EQ(rank.weights_bytes, stored / dtype_size(plan.stored_dtype) * dtype_size(plan.compute_dtype));
    std::uint64_t by_role = 0;
    for (const auto& [role, bytes] : rank.bytes_by_role) by_role += bytes;
    ASSERT_EQ(by_role, rank.weights_bytes);
  }
}

TEST(PlanProperty, RandomModelsOnRandomRankCounts) {
  Dice dice(20240711);
  std::vector<TensorInfo> stored;
  for (int round = 0; round < 3000; ++round) {
    const std::string config = random_config(dice);
    const ModelSpec spec = spec_with(config);
    const int ranks = static_cast<int>(dice.roll(1, std::min<std::int64_t>(16, spec.q_heads)));
    SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, config));
    const DType dtype = static_cast<DType>(dice.roll(0, 2));
    const Claims claims = complete_claims(spec, dtype, stored);
    const ShardingPlan plan =
        make_sharding_plan(spec, Checkpoint(), claims, ranks, static_cast<DType>(dice.roll(0, 2)));
    expect_coverage(plan);
    expect_consistency(spec, plan);
    expect_evenness(spec, plan);
    expect_sums(plan);
    expect_common_parts(spec, plan);
    const std::vector<std::byte> encoded = encode(plan);
    const std::vector<std::byte> again = encode(decode_plan(encoded));
    ASSERT_EQ(encoded, again);
    ASSERT_EQ(plan_digest(encoded), plan_digest(again));
    if (HasFatalFailure()) return;
  }
}

struct SmallPlan {
  SmallPlan() : spec(spec_with(R"({"attention_bias": true, "mlp_bias": true})")) {
    claims = complete_claims(spec, DType::bfloat16, stored);
    claims.ignored = {"some.buffer"};
    plan = make_sharding_plan(spec, Checkpoint(), claims, 3, DType::float32);
    plan.files = {{"folder/model.safetensors", 1234567}};
  }
  PlannedSlice& slice(const std::string& name, std::size_t rank) {
    const auto at = std::ranges::find(plan.tensors, name, &PlannedTensor::name);
    return plan.slices.at(static_cast<std::size_t>(at - plan.tensors.begin())).at(rank);
  }
  std::string complaint() const {
    return test_files::complaint([&] { prove_coverage(spec, plan); }, ExitCode::internal);
  }
  ModelSpec spec;
  std::vector<TensorInfo> stored;
  Claims claims;
  ShardingPlan plan;
};

TEST(Plan, CrossesRanksUnchanged) {
  const SmallPlan small;
  const ShardingPlan& a = small.plan;
  const std::vector<std::byte> encoded = encode(a);
  const ShardingPlan b = decode_plan(encoded);
  EXPECT_EQ(b.ranks, 3);
  EXPECT_EQ(b.compute_dtype, DType::float32);
  EXPECT_EQ(b.stored_dtype, DType::bfloat16);
  EXPECT_EQ(b.parameters, a.parameters);
  EXPECT_EQ(b.files.at(0).path, "folder/model.safetensors");
  EXPECT_EQ(b.files.at(0).bytes, 1234567U);
  EXPECT_EQ(b.ignored, a.ignored);
  ASSERT_EQ(b.tensors.size(), a.tensors.size());
  for (std::size_t t = 0; t < a.tensors.size(); ++t) {
    EXPECT_EQ(std::tie(a.tensors[t].name, a.tensors[t].role, a.tensors[t].split, a.tensors[t].dtype, a.tensors[t].shape,
                       a.tensors[t].expected, a.tensors[t].file, a.tensors[t].offset),
              std::tie(b.tensors[t].name, b.tensors[t].role, b.tensors[t].split, b.tensors[t].dtype, b.tensors[t].shape,
                       b.tensors[t].expected, b.tensors[t].file, b.tensors[t].offset));
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(b.slices[t].at(r).axis, a.slices[t][r].axis);
      EXPECT_EQ(b.slices[t].at(r).ranges, a.slices[t][r].ranges);
    }
  }
  for (std::size_t r = 0; r < 3; ++r) {
    const RankShare& x = a.per_rank[r].share;
    const RankShare& y = b.per_rank.at(r).share;
    EXPECT_EQ(std::tie(x.rank, x.ranks, x.query_heads, x.kv_heads, x.channels, x.vocab),
              std::tie(y.rank, y.ranks, y.query_heads, y.kv_heads, y.channels, y.vocab));
    EXPECT_EQ(b.per_rank[r].weights_bytes, a.per_rank[r].weights_bytes);
    EXPECT_EQ(b.per_rank[r].file_bytes, a.per_rank[r].file_bytes);
    EXPECT_EQ(b.per_rank[r].bytes_by_role, a.per_rank[r].bytes_by_role);
  }
}

TEST(Plan, ADigestSeesEveryByteAndACutMessageIsRefused) {
  std::vector<std::byte> encoded = encode(SmallPlan().plan);
  const std::string digest = plan_digest(encoded);
  EXPECT_EQ(digest.size(), 16U);
  encoded[encoded.size() / 2] ^= std::byte{1};
  EXPECT_NE(plan_digest(encoded), digest);
  encoded.pop_back();
  EXPECT_THROW(decode_plan(encoded), Error);
}

struct Spoiling {
  const char* what;
  const char* tensor;
  std::size_t rank;
  Ranges ranges;
};

TEST(Plan, TheProofSeesWhatIsChangedOnPurpose) {
  EXPECT_EQ(SmallPlan().complaint(), "no complaint");
  // 8 query heads of 8 in 2 groups on 3 ranks: [0, 16) [16, 32) [32, 64); channels [0, 60) [60, 120) [120, 176)
  const Spoiling spoilings[] = {
      {"hole", "model.layers.0.self_attn.q_proj.weight", 1, {{17, 32}}},
      {"hole at the front", "model.layers.1.mlp.down_proj.weight", 0, {{1, 60}}},
      {"short at the end", "model.layers.0.mlp.gate_proj.weight", 2, {{120, 175}}},
      {"nothing", "model.layers.0.self_attn.o_proj.weight", 1, {}},
      {"overlap", "model.layers.0.self_attn.o_proj.weight", 0, {{0, 17}}},
      {"the neighbour's part", "lm_head.weight", 1, {{0, 107}}},
      {"beyond the end", "model.embed_tokens.weight", 2, {{214, 322}}},
      {"before the beginning", "model.layers.0.mlp.up_proj.bias", 0, {{-1, 60}}},
      {"hole in K", "model.layers.0.self_attn.k_proj.weight", 2, {{9, 16}}},
      {"K beyond the end", "model.layers.0.self_attn.v_proj.weight", 2, {{8, 17}}},
      {"K before the beginning", "model.layers.0.self_attn.k_proj.weight", 0, {{-1, 8}}},
      {"a norm in parts", "model.norm.weight", 1, {{0, 63}}},
      {"a norm on two ranks only", "model.layers.0.input_layernorm.weight", 2, {}},
      {"a bias after the sum in parts", "model.layers.0.mlp.down_proj.bias", 0, {{0, 32}}},
  };
  for (const Spoiling& s : spoilings) {
    SmallPlan small;
    ASSERT_NE(small.slice(s.tensor, s.rank).ranges, s.ranges) << s.what;
    small.slice(s.tensor, s.rank).ranges = s.ranges;
    EXPECT_TRUE(test_files::mentions(small.complaint(), {s.tensor})) << s.what;
  }
}

// Fused rows with sizes small enough to follow by hand.
TEST(Plan, FusedRowsAreTakenSegmentBySegment) {
  ModelSpec spec = spec_with();  // 8 query heads in 2 groups of head_dim 8, 176 channels
  spec.tensors = {{.name = "qkv", .role = Role::qkv, .shape = {96, 64}},
                  {.name = "qkv_bias", .role = Role::qkv, .bias = true, .shape = {96}},
                  {.name = "gate_up", .role = Role::mlp_gate_up, .shape = {352, 64}}};
  std::vector<TensorInfo> stored;
  const Claims claims = complete_claims(spec, DType::float32, stored);
  const ShardingPlan whole = make_sharding_plan(spec, Checkpoint(), claims, 1, DType::float32);
  EXPECT_EQ(held(whole, "qkv", 0), (Ranges{{0, 96}}));  // adjacent segments are one run
  EXPECT_EQ(held(whole, "gate_up", 0), (Ranges{{0, 352}}));
  const ShardingPlan plan = make_sharding_plan(spec, Checkpoint(), claims, 3, DType::float32);
  for (const char* name : {"qkv", "qkv_bias"}) {
    EXPECT_EQ(held(plan, name, 0), (Ranges{{0, 16}, {64, 72}, {80, 88}}));  // two heads, K and V of the first group
    EXPECT_EQ(held(plan, name, 1), (Ranges{{16, 32}, {64, 72}, {80, 88}}));
    EXPECT_EQ(held(plan, name, 2), (Ranges{{32, 64}, {72, 80}, {88, 96}}));
  }
  EXPECT_EQ(held(plan, "gate_up", 1), (Ranges{{60, 120}, {236, 296}}));
  const RoleSlice slice = role_slice(spec, spec.tensors[0], plan.per_rank[1].share);
  EXPECT_EQ(slice.pieces, (std::vector<Piece>{{16, 0, 16}, {64, 16, 8}, {80, 24, 8}}));
  EXPECT_EQ(slice.extent(), 32);
}

TEST(Plan, MoreRanksThanQueryHeadsDoNotFit) {
  const ModelSpec spec = spec_with();
  std::vector<TensorInfo> stored;
  const Claims claims = complete_claims(spec, DType::float32, stored);
  const std::string text = test_files::complaint(
      [&] { make_sharding_plan(spec, Checkpoint(), claims, 9, DType::float32); }, ExitCode::does_not_fit);
  EXPECT_TRUE(test_files::mentions(text, {"9 ranks", "8 query heads", "at most 8"}));
}

}  // namespace
}  // namespace tpinfer
