// Index maps of mixtures of experts and fused attention: values that are their own row or column number show where each
// one goes.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "sparse_model.hpp"

namespace tpinfer {
namespace {

using Numbers = std::vector<std::int64_t>;

ModelSpec bigcode(bool multi_query) {
  return spec_with(fmt::format(R"({{"architectures": ["GPTBigCodeForCausalLM"], "n_embd": 40, "n_layer": 2, "n_head": 5,
    "n_positions": 64, "multi_query": {}, "vocab_size": 83}})",
                               multi_query));
}

ModelSpec mixtral() {
  return spec_with(R"({"architectures": ["MixtralForCausalLM"], "num_local_experts": 5, "num_experts_per_tok": 2})");
}

ModelSpec qwen2_moe() {
  return spec_with(R"({"architectures": ["Qwen2MoeForCausalLM"], "num_experts": 6, "num_experts_per_tok": 2,
    "num_hidden_layers": 4, "decoder_sparse_step": 2, "moe_intermediate_size": 44,
    "shared_expert_intermediate_size": 100})");
}

const ExpectedTensor& named(const ModelSpec& spec, const std::string& name) {
  const auto at = std::ranges::find(spec.tensors, name, &ExpectedTensor::name);
  EXPECT_NE(at, spec.tensors.end()) << name;
  return *at;
}

// What a rank holds of an axis whose values are 0, 1, 2, ...: the pieces put where they say they go.
Numbers gathered(const ModelSpec& spec, const std::string& name, int rank, int ranks, int axis = 0) {
  const ExpectedTensor& tensor = named(spec, name);
  const RoleSlice slice = role_slice(spec, tensor, rank_share(spec, rank, ranks));
  EXPECT_EQ(stored_axis(slice, tensor.fusion), axis) << name;
  Numbers local(static_cast<std::size_t>(slice.extent()), -1);
  for (const Piece& piece : slice.pieces)
    for (std::int64_t i = 0; i < piece.count; ++i) {
      EXPECT_EQ(local.at(static_cast<std::size_t>(piece.to + i)), -1) << name << ": written twice";
      local[static_cast<std::size_t>(piece.to + i)] = piece.from + i;
    }
  return local;
}

Numbers run(std::int64_t first, std::int64_t count) {
  Numbers numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Numbers joined(const std::vector<Numbers>& parts) {
  Numbers all;
  for (const Numbers& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

constexpr std::int64_t kWidth = 8;  // of a head

TEST(FusedRows, MultiQueryIsQThenOneKThenOneV) {
  const ModelSpec spec = bigcode(true);
  ASSERT_EQ(named(spec, "transformer.h.1.attn.c_attn.weight").shape, (Numbers{56, 40}));
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::int64_t head = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t heads = 5 / ranks + (rank < 5 % ranks ? 1 : 0);
      const Numbers expected = joined({run(head * kWidth, heads * kWidth), run(40, kWidth), run(48, kWidth)});
      for (const char* name : {"transformer.h.1.attn.c_attn.weight", "transformer.h.1.attn.c_attn.bias"})
        EXPECT_EQ(gathered(spec, name, rank, ranks), expected) << name << " " << rank << " of " << ranks;
      // the columns of the output product are those of the same heads
      EXPECT_EQ(gathered(spec, "transformer.h.1.attn.c_proj.weight", rank, ranks, 1),
                run(head * kWidth, heads * kWidth));
      head += heads;
    }
  }
}

TEST(FusedRows, WithoutItEachHeadHasItsOwnTriple) {
  const ModelSpec spec = bigcode(false);
  ASSERT_EQ(named(spec, "transformer.h.0.attn.c_attn.weight").shape, (Numbers{120, 40}));
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::int64_t first = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t heads = 5 / ranks + (rank < 5 % ranks ? 1 : 0);
      Numbers expected;  // all q of my heads, then all k, then all v
      for (std::int64_t part = 0; part < 3; ++part)
        for (std::int64_t head = first; head < first + heads; ++head)
          for (std::int64_t i = 0; i < kWidth; ++i) expected.push_back(head * 3 * kWidth + part * kWidth + i);
      for (const char* name : {"transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias"})
        EXPECT_EQ(gathered(spec, name, rank, ranks), expected) << name << " " << rank << " of " << ranks;
      first += heads;
    }
  }
}

TEST(FusedRows, EachGroupHasItsQueryHeadsThenItsKAndV) {
  const ModelSpec spec = spec_with(R"({"architectures": ["FalconForCausalLM"], "new_decoder_architecture": true,
    "num_kv_heads": 2, "num_attention_heads": 6, "hidden_size": 48})");
  const std::string name = "transformer.h.0.self_attention.query_key_value.weight";
  ASSERT_EQ(named(spec, name).shape, (Numbers{80, 48}));  // 2 groups of 3 + 2 heads of 8
  const auto heads = [](std::initializer_list<std::int64_t> stored) {
    Numbers all;
    for (const std::int64_t head : stored)
      for (std::int64_t i = 0; i < kWidth; ++i) all.push_back(head * kWidth + i);
    return all;
  };
  EXPECT_EQ(gathered(spec, name, 0, 1), heads({0, 1, 2, 5, 6, 7, 3, 8, 4, 9}));
  EXPECT_EQ(gathered(spec, name, 0, 2), heads({0, 1, 2, 3, 4}));
  EXPECT_EQ(gathered(spec, name, 1, 2), heads({5, 6, 7, 8, 9}));
  // three ranks: two share the first group
  EXPECT_EQ(gathered(spec, name, 0, 3), heads({0, 1, 3, 4}));
  EXPECT_EQ(gathered(spec, name, 1, 3), heads({2, 3, 4}));
  EXPECT_EQ(gathered(spec, name, 2, 3), heads({5, 6, 7, 8, 9}));
}

TEST(TurnedMatrices, AreCutOnTheOtherAxisAndTheirBiasesAreNot) {
  const ModelSpec spec = spec_with(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 40, "n_layer": 1, "n_head": 5,
    "n_positions": 64, "vocab_size": 83, "num_key_value_heads": "ABSENT"})");
  const std::string layer = "transformer.h.0.";
  ASSERT_EQ(named(spec, layer + "attn.c_attn.weight").shape, (Numbers{40, 120}));
  ASSERT_EQ(named(spec, layer + "mlp.c_fc.weight").shape, (Numbers{40, 160}));
  ASSERT_EQ(named(spec, layer + "mlp.c_proj.weight").shape, (Numbers{160, 40}));
  // rank 1 of 2 has heads 3 and 4, and the second half of 160 channels
  const Numbers qkv = joined({run(24, 16), run(64, 16), run(104, 16)});
  EXPECT_EQ(gathered(spec, layer + "attn.c_attn.weight", 1, 2, 1), qkv);
  EXPECT_EQ(gathered(spec, layer + "attn.c_attn.bias", 1, 2), qkv);
  EXPECT_EQ(gathered(spec, layer + "attn.c_proj.weight", 1, 2, 0), run(24, 16));
  EXPECT_EQ(gathered(spec, layer + "attn.c_proj.bias", 1, 2), run(0, 40));
  EXPECT_EQ(gathered(spec, layer + "mlp.c_fc.weight", 1, 2, 1), run(80, 80));
  EXPECT_EQ(gathered(spec, layer + "mlp.c_proj.weight", 1, 2, 0), run(80, 80));
}

TEST(NormsOfHeads, GoWithTheHeadsThatTheyBelongTo) {
  const ModelSpec each = spec_with(R"({"architectures": ["CohereForCausalLM"], "use_qk_norm": true})");
  const ModelSpec one = spec_with(R"({"architectures": ["Qwen3ForCausalLM"]})");
  const ModelSpec whole = spec_with(R"({"architectures": ["OlmoeForCausalLM"], "num_experts": 4,
    "num_experts_per_tok": 2})");
  const std::string q = "model.layers.1.self_attn.q_norm.weight";
  const std::string k = "model.layers.1.self_attn.k_norm.weight";
  ASSERT_EQ(named(each, q).shape, (Numbers{8, 8}));
  EXPECT_EQ(gathered(each, q, 1, 3), run(2, 2));  // 2 KV heads, 4 query heads each; the first is shared by two ranks
  EXPECT_EQ(gathered(each, k, 1, 3), run(0, 1));
  EXPECT_EQ(gathered(one, q, 1, 3), run(0, 8));
  EXPECT_EQ(gathered(one, k, 2, 3), run(0, 8));
  EXPECT_EQ(gathered(whole, q, 2, 3), run(32, 32));
  EXPECT_EQ(gathered(whole, k, 2, 3), run(8, 8));
}

TEST(FusedRows, GateThenUpOfEveryExpert) {
  const ModelSpec spec = qwen2_moe();  // 44 channels in units of 1
  const std::string layer = "model.layers.3.mlp.experts.";
  ASSERT_EQ(named(spec, layer + "gate_up_proj").shape, (Numbers{6, 88, 64}));
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      const Numbers cuts = channel_cuts(44, ranks);
      const std::int64_t begin = cuts[static_cast<std::size_t>(rank)];
      const std::int64_t count = cuts[static_cast<std::size_t>(rank) + 1] - begin;
      EXPECT_EQ(gathered(spec, layer + "gate_up_proj", rank, ranks, 1),
                joined({run(begin, count), run(44 + begin, count)}));
      EXPECT_EQ(gathered(spec, layer + "down_proj", rank, ranks, 2), run(begin, count));
      // and the same channels where each expert has tensors of its own
      EXPECT_EQ(gathered(spec, layer + "4.gate_proj.weight", rank, ranks), run(begin, count));
      EXPECT_EQ(gathered(spec, layer + "4.up_proj.weight", rank, ranks), run(begin, count));
      EXPECT_EQ(gathered(spec, layer + "4.down_proj.weight", rank, ranks, 1), run(begin, count));
    }
}

TEST(Experts, W1AndW3AreGateAndUpAndW2IsCutTheOtherWay) {
  const ModelSpec spec = mixtral();  // 176 channels in units of 4
  const std::string expert = "model.layers.1.block_sparse_moe.experts.2.";
  EXPECT_EQ(named(spec, expert + "w1.weight").role, Role::expert_gate);
  EXPECT_EQ(named(spec, expert + "w3.weight").role, Role::expert_up);
  EXPECT_EQ(named(spec, expert + "w2.weight").role, Role::expert_down);
  EXPECT_EQ(named(spec, expert + "w1.weight").shape, (Numbers{176, 64}));
  EXPECT_EQ(named(spec, expert + "w2.weight").shape, (Numbers{64, 176}));
  for (const auto& [rank, begin, count] : {std::tuple{0, 0, 60}, {1, 60, 60}, {2, 120, 56}}) {
    EXPECT_EQ(gathered(spec, expert + "w1.weight", rank, 3), run(begin, count));
    EXPECT_EQ(gathered(spec, expert + "w3.weight", rank, 3), run(begin, count));
    EXPECT_EQ(gathered(spec, expert + "w2.weight", rank, 3, 1), run(begin, count));
  }
}

TEST(Experts, RoutersAndTheSharedExpertsGateAreWholeOnEveryRank) {
  const ModelSpec mixture = qwen2_moe();
  const ModelSpec other = mixtral();
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(gathered(mixture, "model.layers.1.mlp.gate.weight", rank, ranks), run(0, 6));
      EXPECT_EQ(gathered(mixture, "model.layers.1.mlp.shared_expert_gate.weight", rank, ranks), run(0, 1));
      EXPECT_EQ(gathered(other, "model.layers.0.block_sparse_moe.gate.weight", rank, ranks), run(0, 5));
      EXPECT_EQ(gathered(other, "model.layers.0.mlp.gate.weight", rank, ranks), run(0, 5));
    }
  for (const Role role : {Role::router, Role::shared_expert_gate, Role::position_embedding}) {
    EXPECT_EQ(role_split(role, false, Fusion::none), Split::replicated);
    EXPECT_TRUE(may_overlap(role, false));
  }
}

TEST(Experts, DenseLayersAndTheSharedExpertHaveWidthsOfTheirOwn) {
  const ModelSpec spec = qwen2_moe();
  const Numbers dense = channel_cuts(176, 4);
  const Numbers shared = channel_cuts(100, 4);
  for (int rank = 0; rank < 4; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    EXPECT_EQ(gathered(spec, "model.layers.0.mlp.up_proj.weight", rank, 4), run(dense[at], dense[at + 1] - dense[at]));
    for (const char* part : {"gate_proj", "up_proj"})
      EXPECT_EQ(gathered(spec, fmt::format("model.layers.1.mlp.shared_expert.{}.weight", part), rank, 4),
                run(shared[at], shared[at + 1] - shared[at]));
    EXPECT_EQ(gathered(spec, "model.layers.1.mlp.shared_expert.down_proj.weight", rank, 4, 1),
              run(shared[at], shared[at + 1] - shared[at]));
  }
}

// Replicated things are a rank's own on top of its share; nothing else is held twice.
TEST(Experts, BytesOfAllRanksAreTheModelAndWhatIsReplicated) {
  for (const ModelSpec& spec : {mixtral(), qwen2_moe(), bigcode(true), bigcode(false)}) {
    ModelSpec one = spec;
    std::erase_if(one.tensors, [](const ExpectedTensor& t) { return t.layout == Layout::all_experts; });
    std::vector<TensorInfo> stored;
    const Claims claims = complete_claims(one, DType::float32, stored);
    const ShardingPlan whole = make_sharding_plan(one, Checkpoint(), claims, 1, DType::float32);
    const ShardingPlan plan = make_sharding_plan(one, Checkpoint(), claims, 4, DType::float32);
    EXPECT_EQ(whole.per_rank[0].weights_bytes, claims.parameters * 4);
    std::uint64_t more = 0;
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
      const ExpectedTensor& tensor = one.tensors[plan.tensors[t].expected];
      std::uint64_t held = 0;
      for (const PlannedSlice& slice : plan.slices[t]) held += slice_bytes(plan.tensors[t], slice);
      const std::uint64_t bytes = slice_bytes(whole.tensors[t], whole.slices[t][0]);
      if (!may_overlap(tensor.role, tensor.bias)) {
        EXPECT_EQ(held, bytes) << tensor.name;
      }
      more += held - bytes;
    }
    std::uint64_t all = 0;
    for (const PlannedRank& rank : plan.per_rank) all += rank.weights_bytes;
    EXPECT_EQ(all, whole.per_rank[0].weights_bytes + more) << one.architecture;
  }
}

// make_sharding_plan proves that the slices of each tensor are the whole; here that holders of one part agree on it.
TEST(Coverage, OfEveryFusionStorageAndNormOnEveryNumberOfRanks) {
  const ModelSpec specs[] = {
      spec_with(R"({"architectures": ["FalconForCausalLM"], "new_decoder_architecture": true, "num_kv_heads": 3,
                    "num_attention_heads": 12, "hidden_size": 96})"),
      spec_with(R"({"architectures": ["FalconForCausalLM"], "multi_query": false, "num_attention_heads": 7,
                    "hidden_size": 56})"),
      spec_with(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 56, "n_layer": 1, "n_head": 7, "n_positions": 64,
                    "vocab_size": 83, "num_key_value_heads": "ABSENT"})"),
      spec_with(R"({"architectures": ["Phi3ForCausalLM"], "intermediate_size": 100})"),
      spec_with(R"({"architectures": ["CohereForCausalLM"], "use_qk_norm": true})"),
      spec_with(R"({"architectures": ["OlmoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 2})")};
  for (ModelSpec spec : specs) {
    std::erase_if(spec.tensors, [](const ExpectedTensor& t) { return t.layout == Layout::all_experts; });
    std::vector<TensorInfo> stored;
    const Claims claims = complete_claims(spec, DType::float32, stored);
    for (int ranks = 1; ranks <= spec.q_heads; ++ranks) {
      const ShardingPlan plan = make_sharding_plan(spec, Checkpoint(), claims, ranks, DType::float32);
      for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
        std::map<std::int64_t, int> holders;
        for (const PlannedSlice& slice : plan.slices[t])
          for (const Range& range : slice.ranges)
            for (std::int64_t i = range.begin; i < range.end; ++i) ++holders[i];
        const ExpectedTensor& tensor = spec.tensors[plan.tensors[t].expected];
        const auto axis = static_cast<std::size_t>(plan.slices[t].front().axis);
        ASSERT_EQ(std::ssize(holders), tensor.shape[axis]) << tensor.name << " on " << ranks;
        for (const auto& [index, count] : holders)
          ASSERT_LE(count, may_overlap(tensor.role, tensor.bias) ? ranks : 1) << tensor.name << " at " << index;
      }
    }
  }
}

TEST(TiedHead, IsPlannedOnce) {
  const std::vector<std::uint64_t> bytes = [] {
    std::vector<std::uint64_t> found;
    for (const char* tied : {"true", "false"}) {
      const ModelSpec spec = spec_with(fmt::format(R"({{"tie_word_embeddings": {}}})", tied));
      std::vector<TensorInfo> stored;
      const Claims claims = complete_claims(spec, DType::float16, stored);
      const ShardingPlan plan = make_sharding_plan(spec, Checkpoint(), claims, 2, DType::float32);
      EXPECT_EQ(plan.per_rank[0].bytes_by_role.contains("lm_head"), std::string(tied) == "false");
      found.push_back(plan.per_rank[0].weights_bytes);
    }
    return found;
  }();
  EXPECT_EQ(bytes[1] - bytes[0], 161U * 64U * 4U);  // 321 rows on 2 ranks
}

}  // namespace
}  // namespace tpinfer
