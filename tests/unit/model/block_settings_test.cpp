#include "model/block_settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "llama_config.hpp"

namespace tpinfer {
namespace {

using Windows = std::vector<std::int64_t>;

/// A config of another architecture with the base's sizes under that family's keys.
ModelSpec spec_of(const std::string& architecture, const std::string& more = "{}") {
  Json changes = parse_json(more, "changes");
  changes["architectures"] = Json::array({architecture});
  return spec_with(changes.dump());
}

const ExpectedTensor* find(const ModelSpec& spec, const std::string& name) {
  const auto at = std::ranges::find(spec.tensors, name, &ExpectedTensor::name);
  return at == spec.tensors.end() ? nullptr : &*at;
}

std::string complaint(const std::string& architecture, const std::string& more) {
  try {
    spec_of(architecture, more);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input);
    return error.what();
  }
  return "accepted";
}

TEST(BlockSettings, SlopesOfAlibi) {
  EXPECT_EQ(alibi_slopes(8),
            (std::vector<float>{0.5F, 0.25F, 0.125F, 0.0625F, 0.03125F, 0.015625F, 0.0078125F, 0.00390625F}));
  // between powers of two: those of the smaller one, then every other one of the larger one
  const std::vector<float> six = alibi_slopes(6);
  const std::vector<float> wanted{0.25F, 0.0625F, 0.015625F, 0.00390625F, 0.5F, 0.125F};
  ASSERT_EQ(six.size(), wanted.size());
  for (std::size_t i = 0; i < six.size(); ++i) EXPECT_FLOAT_EQ(six[i], wanted[i]);
}

TEST(BlockSettings, RotatedChannelsAreAShareOrACount) {
  EXPECT_EQ(spec_of("GPTNeoXForCausalLM", R"({"hidden_size": 128})").rope.rotary_dim, 4);  // a quarter of 16
  EXPECT_EQ(spec_of("GPTNeoXForCausalLM", R"({"rotary_pct": 1.0, "rotary_emb_base": 500})").rope.rotary_dim, 8);
  EXPECT_EQ(spec_of("GPTNeoXForCausalLM", R"({"rotary_pct": 1.0, "rotary_emb_base": 500})").rope.theta, 500);
  const char* sizes = R"({"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 6})";
  const ModelSpec spec = spec_of("GPTJForCausalLM", sizes);
  EXPECT_EQ(spec.rope.rotary_dim, 6);
  EXPECT_EQ(spec.position, Position::rope_adjacent);
  EXPECT_EQ(spec.ffn, 256);
  EXPECT_NE(complaint("GPTJForCausalLM", R"({"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64,
                                              "rotary_dim": 18})")
                .find("16 channels in a head, found 18"),
            std::string::npos);
}

TEST(BlockSettings, ScalesAndLimits) {
  const ModelSpec granite = spec_of("GraniteForCausalLM", R"({"embedding_multiplier": 12, "residual_multiplier": 0.22,
                                                               "attention_multiplier": 0.015625, "logits_scaling": 8})");
  EXPECT_EQ(granite.embedding_scale, 12);
  EXPECT_EQ(granite.residual_scale, 0.22);
  EXPECT_EQ(granite.attention_scale, 0.015625);
  EXPECT_EQ(granite.logit_scale, 0.125);
  const ModelSpec gemma = spec_of("Gemma2ForCausalLM", R"({"query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0,
                                                            "final_logit_softcapping": 30.0})");
  EXPECT_EQ(gemma.attention_scale, 0.0625);
  EXPECT_EQ(gemma.attention_soft_cap, 50);
  EXPECT_EQ(gemma.logit_soft_cap, 30);
  EXPECT_EQ(gemma.embedding_scale, 8);  // root of 64
  EXPECT_EQ(gemma.norm_offset, 1);
  EXPECT_EQ(gemma.activation, ActivationKind::gelu_tanh);
  EXPECT_TRUE(gemma.tied_head);
  EXPECT_EQ(spec_of("CohereForCausalLM", R"({"logit_scale": 0.0625})").logit_scale, 0.0625);
  // a family whose table does not name a setting does not read it
  const ModelSpec plain = spec_of("LlamaForCausalLM", R"({"embedding_multiplier": 12, "final_logit_softcapping": 30})");
  EXPECT_EQ(plain.embedding_scale, 1);
  EXPECT_EQ(plain.logit_soft_cap, 0);
  EXPECT_NE(complaint("Gemma2ForCausalLM", R"({"final_logit_softcapping": -1})").find("final_logit_softcapping"),
            std::string::npos);
}

TEST(BlockSettings, WindowsOfEveryOtherLayerOrAsListed) {
  EXPECT_EQ(spec_of("Gemma2ForCausalLM", R"({"num_hidden_layers": 5, "sliding_window": 16})").windows,
            (Windows{16, 0, 16, 0, 16}));
  EXPECT_EQ(spec_of("Gemma2ForCausalLM", R"({"num_hidden_layers": 3, "sliding_window": 16, "layer_types":
                    ["full_attention", "sliding_attention", "full_attention"]})")
                .windows,
            (Windows{0, 16, 0}));
  EXPECT_EQ(spec_of("Qwen2ForCausalLM", R"({"num_hidden_layers": 2, "sliding_window": 16, "layer_types":
                    ["full_attention", "sliding_attention"]})")
                .windows,
            (Windows{0, 16}));
  EXPECT_NE(complaint("Gemma2ForCausalLM", R"({"sliding_window": 16, "layer_types": ["full_attention"]})")
                .find("layer_types must be a list of 2 layers"),
            std::string::npos);
  EXPECT_NE(complaint("Gemma2ForCausalLM", R"({"layer_types": ["full_attention", "chunked_attention"]})")
                .find("layer_types holds \"chunked_attention\""),
            std::string::npos);
}

TEST(BlockSettings, LocalLayersOfAListOfTypes) {
  const char* neo = R"({"num_layers": 5, "num_heads": 4, "intermediate_size": null, "window_size": 9,
                        "attention_types": [[["global", "local"], 2], [["local"], 1]]})";
  const ModelSpec spec = spec_of("GPTNeoForCausalLM", neo);
  EXPECT_EQ(spec.windows, (Windows{0, 9, 0, 9, 9}));
  EXPECT_EQ(spec.attention_scale, 1);
  EXPECT_EQ(spec.ffn, 256);
  EXPECT_NE(complaint("GPTNeoForCausalLM", R"({"num_layers": 3, "num_heads": 4,
                                               "attention_types": [[["global", "local"], 2]]})")
                .find("attention_types must be"),
            std::string::npos);
}

TEST(BlockSettings, ParallelLayersHaveOneNormOrTwo) {
  EXPECT_FALSE(spec_of("LlamaForCausalLM").parallel);
  const ModelSpec phi = spec_of("PhiForCausalLM");
  EXPECT_TRUE(phi.parallel);
  EXPECT_FALSE(phi.has(Role::mlp_norm));
  EXPECT_TRUE(phi.has(Role::lm_head, true));
  const ModelSpec neox = spec_of("GPTNeoXForCausalLM", R"({"rotary_pct": 1.0, "use_parallel_residual": false})");
  EXPECT_FALSE(neox.parallel);
  EXPECT_TRUE(neox.has(Role::mlp_norm));
  const ModelSpec old = spec_of("FalconForCausalLM");
  EXPECT_TRUE(old.parallel);
  EXPECT_EQ(old.kv_heads, 1);
  EXPECT_NE(find(old, "transformer.h.0.input_layernorm.weight"), nullptr);
  EXPECT_EQ(find(old, "transformer.h.0.ln_mlp.weight"), nullptr);
  EXPECT_FALSE(old.has(Role::mlp_norm));
  const ModelSpec grouped = spec_of("FalconForCausalLM", R"({"new_decoder_architecture": true, "num_kv_heads": 2})");
  EXPECT_EQ(grouped.kv_heads, 2);
  EXPECT_NE(find(grouped, "transformer.h.0.ln_attn.bias"), nullptr);
  EXPECT_NE(find(grouped, "transformer.h.0.ln_mlp.weight"), nullptr);
  EXPECT_EQ(find(grouped, "transformer.h.0.input_layernorm.weight"), nullptr);
  const ModelSpec one = spec_of("FalconForCausalLM", R"({"new_decoder_architecture": true, "num_kv_heads": 2,
                                                         "num_ln_in_parallel_attn": 1})");
  EXPECT_NE(find(one, "transformer.h.0.input_layernorm.weight"), nullptr);
  EXPECT_FALSE(one.has(Role::mlp_norm));
  const ModelSpec sequential = spec_of("FalconForCausalLM", R"({"parallel_attn": false, "multi_query": false})");
  EXPECT_EQ(sequential.kv_heads, 8);
  EXPECT_NE(find(sequential, "transformer.h.1.post_attention_layernorm.weight"), nullptr);
  EXPECT_EQ(spec_of("RWForCausalLM", R"({"n_head_kv": 4})").kv_heads, 4);  // the count alone says that it is grouped
}

TEST(BlockSettings, NormsOfEmbeddingsAndOfResultsAndABiasOfTheHeadFollowFromTheRows) {
  const ModelSpec gemma = spec_of("Gemma2ForCausalLM");
  EXPECT_TRUE(gemma.has(Role::attn_post_norm) && gemma.has(Role::mlp_post_norm));
  EXPECT_EQ(find(gemma, "model.layers.1.post_feedforward_layernorm.weight")->shape, (Windows{64}));
  const ModelSpec bloom = spec_of("BloomForCausalLM");
  EXPECT_TRUE(bloom.has(Role::embedding_norm) && bloom.has(Role::embedding_norm, true));
  EXPECT_EQ(find(bloom, "transformer.word_embeddings_layernorm.bias")->shape, (Windows{64}));
  EXPECT_EQ(find(spec_of("PhiForCausalLM"), "lm_head.bias")->shape, (Windows{321}));
  const ModelSpec plain = spec_of("LlamaForCausalLM");
  for (const Role role : {Role::attn_post_norm, Role::mlp_post_norm, Role::embedding_norm})
    EXPECT_FALSE(plain.has(role));
  EXPECT_FALSE(plain.has(Role::lm_head, true));
}

TEST(BlockSettings, SettingsOfOtherNames) {
  const ModelSpec bloom = spec_of("BloomForCausalLM", R"({"hidden_size": "ABSENT", "n_embed": 96, "n_layer": 3,
                                                          "num_hidden_layers": "ABSENT"})");
  EXPECT_EQ(bloom.hidden, 96);
  EXPECT_EQ(bloom.layers, 3);
  EXPECT_EQ(bloom.ffn, 176);  // as the config says
  EXPECT_EQ(bloom.position, Position::alibi);
  EXPECT_NE(complaint("BloomForCausalLM", R"({"hidden_size": "ABSENT"})").find("n_embed is missing"),
            std::string::npos);
  const ModelSpec mpt = spec_of("MPTForCausalLM", R"({"d_model": 96, "n_layers": 1, "n_heads": 6, "max_seq_len": 50,
                                "expansion_ratio": 3, "intermediate_size": "ABSENT",
                                "attn_config": {"clip_qkv": 6}})");
  EXPECT_EQ(mpt.ffn, 288);
  EXPECT_EQ(mpt.max_positions, 50);
  EXPECT_EQ(mpt.qkv_clip, 6);
  EXPECT_EQ(mpt.alibi_slopes.size(), 6U);
  const ModelSpec opt = spec_of("OPTForCausalLM", R"({"ffn_dim": 200})");
  EXPECT_EQ(find(opt, "model.decoder.embed_positions.weight")->shape, (Windows{4098, 64}));
  EXPECT_EQ(find(opt, "model.decoder.layers.0.fc1.bias")->shape, (Windows{200}));
}

TEST(BlockSettings, FlagsThatAreNotSupportedAreNamed) {
  EXPECT_NE(complaint("FalconForCausalLM", R"({"alibi": true})").find("alibi is true, which is not supported"),
            std::string::npos);
  EXPECT_NE(complaint("OPTForCausalLM", R"({"ffn_dim": 200, "do_layer_norm_before": false})")
                .find("do_layer_norm_before is false, which is not supported"),
            std::string::npos);
  EXPECT_NE(complaint("BloomForCausalLM", R"({"apply_residual_connection_post_layernorm": true})")
                .find("apply_residual_connection_post_layernorm is true"),
            std::string::npos);
  EXPECT_NE(complaint("MPTForCausalLM", R"({"d_model": 96, "n_layers": 1, "n_heads": 6,
                                             "attn_config": {"alibi": false}})")
                .find("attn_config.alibi is false"),
            std::string::npos);
}

}  // namespace
}  // namespace tpinfer
