#include "shard/claim.hpp"

#include <gtest/gtest.h>

#include "sparse_model.hpp"

namespace tpinfer {
namespace {

using test_files::mentions;
using Entries = std::vector<StoredEntry>;

class Claim : public testing::Test {
 protected:
  Claims claim(const ModelSpec& spec, const Entries& entries) {
    write_sparse_model(folder_.path(), entries);
    checkpoint_ = Checkpoint::open(folder_.path(), Log());
    const Log log([this](LogLevel level, const std::string& text) {
      if (level == LogLevel::warning) warnings_.push_back(text);
    });
    return claim_tensors(spec, checkpoint_, log);
  }
  std::string complaint(const ModelSpec& spec, const Entries& entries) {
    return test_files::complaint([&] { claim(spec, entries); });
  }

  test_files::TemporaryFolder folder_;
  Checkpoint checkpoint_;
  std::vector<std::string> warnings_;
};

StoredEntry& entry(Entries& entries, const std::string& name) {
  return *std::ranges::find(entries, name, &StoredEntry::name);
}

TEST_F(Claim, ACompleteCheckpointIsClaimedWhole) {
  const ModelSpec spec = spec_with();
  Entries entries = entries_of(spec, DType::float16);
  for (StoredEntry& e : entries)
    if (e.shape.size() == 1) e.dtype = DType::float32;  // mixed types: the one with most bytes speaks for all
  const Claims claims = claim(spec, entries);
  ASSERT_EQ(claims.loaded.size(), spec.tensors.size());
  EXPECT_TRUE(std::ranges::is_sorted(claims.loaded, {}, [](const ClaimedTensor& c) { return c.stored->name; }));
  std::uint64_t parameters = 0;
  for (const ClaimedTensor& c : claims.loaded) EXPECT_EQ(c.expected->name, c.stored->name);
  for (const StoredEntry& e : entries) parameters += entry_bytes(e) / dtype_size(e.dtype);
  EXPECT_EQ(claims.parameters, parameters);
  EXPECT_EQ(claims.stored_dtype, DType::float16);
  EXPECT_TRUE(claims.ignored.empty() && warnings_.empty());
}

TEST_F(Claim, MissingTensorsAreNamed) {
  const ModelSpec spec = spec_with();
  Entries entries = entries_of(spec, DType::float16);
  std::erase_if(entries, [](const StoredEntry& e) { return e.name == "model.layers.1.self_attn.k_proj.weight"; });
  EXPECT_TRUE(mentions(complaint(spec, entries), {"1 of 21 required tensors are missing",
                                                  "model.layers.1.self_attn.k_proj.weight", "LlamaForCausalLM"}));
  std::erase_if(entries, [](const StoredEntry& e) { return e.name.starts_with("model.layers.1."); });
  EXPECT_TRUE(mentions(complaint(spec, entries), {"9 of 21", "model.layers.1.input_layernorm.weight", "and 4 more"}));
}

TEST_F(Claim, UnknownTensorsAreNamed) {
  const ModelSpec spec = spec_with();
  Entries entries = entries_of(spec, DType::float16);
  entries.push_back({"model.layers.0.self_attn.q_proj.bias", DType::float16, {64}});
  EXPECT_TRUE(mentions(complaint(spec, entries), {"1 tensors of the checkpoint belong to no part",
                                                  "model.layers.0.self_attn.q_proj.bias", "attention_bias"}));
  entries.back().name = "model.layers.2.input_layernorm.weight";  // a layer more than config.json has
  EXPECT_TRUE(mentions(complaint(spec, entries), {"model.layers.2.input_layernorm.weight"}));
}

TEST_F(Claim, APrefixOnAllNamesShowsBothSides) {
  const ModelSpec spec = spec_with();
  Entries entries = entries_of(spec, DType::float16);
  for (StoredEntry& e : entries) e.name = "base_model." + e.name;
  EXPECT_TRUE(mentions(complaint(spec, entries),
                       {"21 of 21 required tensors are missing", "lm_head.weight", "21 tensors there belong to nothing",
                        "base_model.lm_head.weight", "and 16 more"}));
}

TEST_F(Claim, AWrongShapeShowsBoth) {
  const ModelSpec spec = spec_with();
  Entries entries = entries_of(spec, DType::float16);
  entry(entries, "model.layers.0.self_attn.k_proj.weight").shape = {64, 64};
  EXPECT_TRUE(mentions(complaint(spec, entries),
                       {"model.safetensors", "model.layers.0.self_attn.k_proj.weight", "[64, 64]", "[16, 64]"}));
  entry(entries, "model.layers.0.self_attn.k_proj.weight").shape = {64, 16};  // transposed: as many bytes
  EXPECT_TRUE(mentions(complaint(spec, entries), {"[64, 16]", "[16, 64]"}));
}

TEST_F(Claim, TheFirstWrongShapesAreToldAndTheRestCounted) {
  const ModelSpec spec = spec_with();
  Entries entries = entries_of(spec, DType::float16);
  entry(entries, "lm_head.weight").shape = {320, 64};
  entry(entries, "model.embed_tokens.weight").shape = {320, 64};
  const std::string two = complaint(spec, entries);
  EXPECT_TRUE(mentions(two, {"lm_head.weight", "model.embed_tokens.weight", "[320, 64]", "[321, 64]"}));
  EXPECT_EQ(two.find("more"), std::string::npos) << two;
  for (StoredEntry& e : entries) e.shape.front() += 1;
  EXPECT_TRUE(mentions(complaint(spec, entries), {"and 16 more"}));
}

TEST_F(Claim, QuantisedWeightsAreRefusedAsSuch) {
  const ModelSpec spec = spec_with();
  for (const char* end : {".qweight", ".absmax", ".weight_scale"}) {
    Entries entries = entries_of(spec, DType::float16);
    entry(entries, "model.layers.0.self_attn.q_proj.weight").shape = {2048, 1};  // packed
    entries.push_back({std::string("model.layers.0.self_attn.q_proj") + end, DType::float32, {4}});
    EXPECT_TRUE(mentions(complaint(spec, entries), {std::string("model.layers.0.self_attn.q_proj") + end, "quantised",
                                                    "float16, bfloat16 or float32", "LlamaForCausalLM"}));
  }
}

TEST_F(Claim, ATypeThatNoWeightHasIsRefused) {
  const ModelSpec spec = spec_with();
  for (const DType dtype : {DType::int64, DType::int8, DType::float64, DType::float8_e4m3}) {
    Entries entries = entries_of(spec, DType::float16);
    entry(entries, "model.norm.weight").dtype = dtype;
    EXPECT_TRUE(mentions(complaint(spec, entries),
                         {"model.safetensors", "model.norm.weight", safetensors_name(dtype), "F32, F16 or BF16"}));
  }
}

TEST_F(Claim, ATiedHeadBesideTheEmbeddingIsIgnoredAloud) {
  const ModelSpec spec = spec_with(R"({"tie_word_embeddings": true})");
  Entries entries = entries_of(spec, DType::float16);
  const std::size_t loaded = entries.size();
  EXPECT_EQ(claim(spec, entries).loaded.size(), loaded);
  EXPECT_TRUE(warnings_.empty());
  entries.push_back({"lm_head.weight", DType::float16, {321, 64}});
  const Claims claims = claim(spec, entries);
  EXPECT_EQ(claims.loaded.size(), loaded);
  EXPECT_EQ(claims.ignored, std::vector<std::string>{"lm_head.weight"});
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(mentions(warnings_[0], {"lm_head.weight", "embedding"}));
  entry(entries, "lm_head.weight").shape = {320, 64};  // even what is ignored must be what it says
  EXPECT_TRUE(mentions(complaint(spec, entries), {"lm_head.weight", "[320, 64]", "[321, 64]"}));
}

TEST_F(Claim, BuffersOnTheListAreNobodys) {
  const ModelSpec spec = spec_with();
  Entries entries = entries_of(spec, DType::float16);
  for (const char* layer : {"0", "1"})
    entries.push_back({std::string("model.layers.") + layer + ".self_attn.rotary_emb.inv_freq", DType::float32, {4}});
  const Claims claims = claim(spec, entries);
  EXPECT_EQ(claims.loaded.size(), spec.tensors.size());
  EXPECT_EQ(claims.ignored.size(), 2U);
  EXPECT_TRUE(warnings_.empty());
  entries.push_back({"model.layers.0.self_attn.rotary_emb.something", DType::float32, {4}});
  EXPECT_TRUE(mentions(complaint(spec, entries), {"rotary_emb.something"}));
}

}  // namespace
}  // namespace tpinfer
