#include "model/model_spec.hpp"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.hpp"
#include "llama_config.hpp"
#include "model/families.hpp"

namespace tpinfer {
namespace {

// Every field of a spec as text, so that two specs can be compared and a difference is readable.
std::string described(const ModelSpec& s) {
  std::string text = fmt::format(
      "{} {} hidden {} layers {} heads {}/{} x {} ffn {} vocab {} positions {} eps {} act {} tied {} bias {}{} window "
      "{}\nrope {} {} {} {} {} {} {} {} {} {} {}\ndtype {} eos",
      s.family->name, s.architecture, s.hidden, s.layers, s.q_heads, s.kv_heads, s.head_dim, s.ffn, s.vocab,
      s.max_positions, s.norm_epsilon, static_cast<int>(s.activation), s.tied_head, s.attention_bias, s.mlp_bias,
      fmt::join(s.windows, " "), s.rope.theta, s.rope.rotary_dim, static_cast<int>(s.rope.scaling), s.rope.factor,
      s.rope.low_freq_factor, s.rope.high_freq_factor, s.rope.beta_fast, s.rope.beta_slow, s.rope.truncate,
      s.rope.attention_factor, s.rope.original_max_positions, s.config_dtype ? dtype_name(*s.config_dtype) : "none");
  for (const auto id : s.eos_token_ids) text += fmt::format(" {}", id);
  for (const ExpectedTensor& t : s.tensors) {
    text += fmt::format("\n{} {} {} {}{} :", t.name, role_name(t.role, t.bias), static_cast<int>(t.fusion), t.layer,
                        t.ignored ? " ignored" : "");
    for (const auto n : t.shape) text += fmt::format(" {}", n);
  }
  for (const std::string& pattern : s.ignore_patterns) text += "\nignore " + pattern;
  return text;
}

const ExpectedTensor* find(const ModelSpec& spec, const std::string& name) {
  const auto at = std::ranges::find(spec.tensors, name, &ExpectedTensor::name);
  return at == spec.tensors.end() ? nullptr : &*at;
}

TEST(ModelSpec, SizesAndTensorsOfASmallModel) {
  const ModelSpec spec = spec_with();
  EXPECT_EQ(spec.head_dim, 8);
  EXPECT_EQ(spec.group(), 4);
  EXPECT_EQ(spec.max_positions, 4096);
  EXPECT_EQ(spec.tensors.size(), 2U * 9U + 3U);
  const auto shape = [&](const std::string& name) {
    const ExpectedTensor* t = find(spec, name);
    return t ? t->shape : std::vector<std::int64_t>{};
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape("model.embed_tokens.weight"), (Shape{321, 64}));
  EXPECT_EQ(shape("model.layers.1.self_attn.q_proj.weight"), (Shape{64, 64}));
  EXPECT_EQ(shape("model.layers.0.self_attn.k_proj.weight"), (Shape{16, 64}));
  EXPECT_EQ(shape("model.layers.0.self_attn.o_proj.weight"), (Shape{64, 64}));
  EXPECT_EQ(shape("model.layers.0.mlp.gate_proj.weight"), (Shape{176, 64}));
  EXPECT_EQ(shape("model.layers.0.mlp.down_proj.weight"), (Shape{64, 176}));
  EXPECT_EQ(shape("model.norm.weight"), (Shape{64}));
  EXPECT_EQ(shape("lm_head.weight"), (Shape{321, 64}));
}

struct Spelling {
  const char* old_way;
  const char* new_way;
};

TEST(ModelSpec, BothSpellingsOfTheConfigAreOneModel) {
  const Spelling pairs[] = {
      {R"({"rope_theta": 500000.0, "torch_dtype": "bfloat16"})",
       R"({"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}, "dtype": "bfloat16"})"},
      {R"({"rope_scaling": {"type": "linear", "factor": 2.0}, "torch_dtype": "float16"})",
       R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}, "dtype": "float16"})"},
      {R"({"rope_scaling": {"type": "linear", "factor": 2.0}})",
       R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0}})"},
      {R"({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 1024}})",
       R"({"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 1024, "rope_theta": 5e5}})"},
      {R"({"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024,
          "beta_fast": 16, "beta_slow": 2}})",
       R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024,
          "beta_fast": 16, "beta_slow": 2, "rope_theta": 1e6}})"},
      {R"({"num_key_value_heads": 8, "rope_scaling": null})", R"({"num_key_value_heads": "ABSENT"})"},
      {R"({"torch_dtype": "float32"})", R"({"torch_dtype": "torch.float32"})"},
      {R"({"hidden_act": "swish"})", R"({"hidden_act": "ABSENT"})"},
  };
  for (const auto& [old_way, new_way] : pairs) EXPECT_EQ(described(spec_with(old_way)), described(spec_with(new_way)));
  EXPECT_NE(described(spec_with()), described(spec_with(pairs[0].old_way)));
  EXPECT_EQ(spec_with(pairs[0].new_way).rope.theta, 500000.0);
  EXPECT_EQ(spec_with(pairs[0].new_way).config_dtype, DType::bfloat16);
  EXPECT_EQ(spec_with(pairs[1].new_way).rope.scaling, RopeScaling::linear);
}

struct Refusal {
  const char* changes;
  std::vector<const char*> says;  // besides the file
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesFileAndKey) {
  try {
    spec_with(GetParam().changes);
    FAIL() << "accepted: " << GetParam().changes;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::input) << e.what();
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("config.json: ")) << text;
    for (const char* word : GetParam().says)
      EXPECT_NE(text.find(word), std::string::npos) << text << "\nlacks: " << word;
  }
}

const Refusal kRefusals[] = {
    {R"({"hidden_size": "ABSENT"})", {"hidden_size is missing"}},
    {R"({"hidden_size": null})", {"hidden_size is missing"}},
    {R"({"num_hidden_layers": -2})", {"num_hidden_layers", "found -2"}},
    {R"({"num_hidden_layers": 0})", {"num_hidden_layers", "found 0"}},
    {R"({"num_attention_heads": 8.0})", {"num_attention_heads", "found 8.0"}},
    {R"({"intermediate_size": "176"})", {"intermediate_size", R"(found "176")"}},
    {R"({"vocab_size": true})", {"vocab_size", "found true"}},
    {R"({"vocab_size": 18446744073709551615})", {"vocab_size", "18446744073709551615"}},
    {R"({"hidden_size": 1099511627776})", {"hidden_size", "1099511627776"}},
    {R"({"num_hidden_layers": 1000000000})", {"num_hidden_layers", "1000000000"}},
    {R"({"num_attention_heads": 6})", {"num_attention_heads (6)", "hidden_size (64)", "head_dim"}},
    {R"({"num_attention_heads": 6, "num_key_value_heads": 4})", {"num_attention_heads (6)", "num_key_value_heads (4)"}},
    {R"({"num_key_value_heads": 16})", {"num_attention_heads (8)", "num_key_value_heads (16)"}},
    {R"({"head_dim": 7})", {"even number", "7"}},
    {R"({"head_dim": 0})", {"head_dim", "found 0"}},
    {R"({"architectures": ["LlamaForCasualLM"]})", {"LlamaForCasualLM", "nearest", "LlamaForCausalLM"}},
    {R"({"architectures": ["T5ForConditionalGeneration"]})", {"T5ForConditionalGeneration", "MistralForCausalLM"}},
    {R"({"architectures": ["LlamaForCausalLM", "MistralForCausalLM"]})", {"\"architectures\"", "one"}},
    {R"({"architectures": "LlamaForCausalLM"})", {"\"architectures\""}},
    {R"({"architectures": []})", {"\"architectures\""}},
    {R"({"architectures": "ABSENT"})", {"\"architectures\" is missing"}},
    {R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})", {"quantization_config", "quantised with gptq"}},
    {R"({"quantization_config": {"load_in_4bit": true}})", {"quantised with bitsandbytes"}},
    {R"({"is_encoder_decoder": true})", {"LlamaForCausalLM is an encoder-decoder", "decoder-only"}},
    {R"({"is_encoder_decoder": true, "architectures": ["T5ForConditionalGeneration"]})",
     {"T5ForConditionalGeneration is an encoder-decoder", "decoder-only", "MistralForCausalLM"}},
    {R"({"is_encoder_decoder": true, "architectures": "ABSENT", "model_type": "t5"})", {"t5 is an encoder-decoder"}},
    {R"({"is_encoder_decoder": "no"})", {"is_encoder_decoder", R"(found "no")"}},
    {R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})", {"rope_scaling", "\"dynamic\"", "yarn"}},
    {R"({"rope_parameters": {"rope_type": "longrope", "factor": 2.0}})", {"\"longrope\""}},
    {R"({"rope_scaling": {"type": "linear"}})", {"rope_scaling.factor is missing"}},
    {R"({"rope_scaling": {"type": "linear", "factor": -1}})", {"rope_scaling.factor", "-1"}},
    {R"({"rope_scaling": {"type": "llama3", "factor": 8}})", {"rope_scaling.low_freq_factor is missing"}},
    {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}})",
     {"rope_scaling.low_freq_factor (4)", "rope_scaling.high_freq_factor (1)"}},
    {R"({"rope_scaling": [2]})", {"rope_scaling must be an object"}},
    {R"({"rope_theta": 0})", {"rope_theta", "0"}},
    {R"({"rope_theta": "1e4"})", {"rope_theta", "1e4"}},
    {R"({"partial_rotary_factor": 2.0})", {"partial_rotary_factor", "2"}},
    {R"({"hidden_act": "mish"})", {"hidden_act", "\"mish\"", "silu"}},
    {R"({"torch_dtype": "int8"})", {"torch_dtype", "\"int8\""}},
    {R"({"dtype": "float64"})", {"dtype", "\"float64\""}},
    {R"({"rms_norm_eps": "small"})", {"rms_norm_eps", "small"}},
    {R"({"attention_bias": 1})", {"attention_bias", "found 1"}},
    {R"({"tie_word_embeddings": "yes"})", {"tie_word_embeddings"}},
    {R"({"eos_token_id": -1})", {"eos_token_id", "-1"}},
    {R"({"eos_token_id": [2, "3"]})", {"eos_token_id", "\"3\""}},
    {R"({"max_position_embeddings": 0})", {"max_position_embeddings", "found 0"}},
};
INSTANTIATE_TEST_SUITE_P(ModelSpec, Refused, testing::ValuesIn(kRefusals));

TEST(ModelSpec, ExplicitHeadDimNeedNotBeHiddenOverHeads) {
  const ModelSpec spec = spec_with(R"({"head_dim": 24, "num_attention_heads": 5, "num_key_value_heads": 1})");
  EXPECT_EQ(spec.head_dim, 24);
  EXPECT_EQ(spec.rope.rotary_dim, 24);
  EXPECT_EQ(find(spec, "model.layers.0.self_attn.q_proj.weight")->shape, (std::vector<std::int64_t>{120, 64}));
  EXPECT_EQ(find(spec, "model.layers.0.self_attn.v_proj.weight")->shape, (std::vector<std::int64_t>{24, 64}));
  EXPECT_EQ(find(spec, "model.layers.0.self_attn.o_proj.weight")->shape, (std::vector<std::int64_t>{64, 120}));
}

TEST(ModelSpec, EndTokensAreANumberAListOrNone) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(spec_with().eos_token_ids, Ids{2});
  EXPECT_EQ(spec_with(R"({"eos_token_id": [128001, 128008, 128009]})").eos_token_ids, (Ids{128001, 128008, 128009}));
  EXPECT_EQ(spec_with(R"({"eos_token_id": null})").eos_token_ids, Ids{});
  EXPECT_EQ(spec_with(R"({"eos_token_id": "ABSENT"})").eos_token_ids, Ids{});
}

TEST(ModelSpec, ATiedHeadIsNotLoaded) {
  EXPECT_FALSE(find(spec_with(), "lm_head.weight")->ignored);
  const ModelSpec tied = spec_with(R"({"tie_word_embeddings": true})");
  EXPECT_TRUE(tied.tied_head);
  ASSERT_NE(find(tied, "lm_head.weight"), nullptr);
  EXPECT_TRUE(find(tied, "lm_head.weight")->ignored);
}

TEST(ModelSpec, BiasesAreThereAsTheFlagsSay) {
  const auto biases = [](const char* changes) {
    std::set<std::string> names;
    for (const ExpectedTensor& t : spec_with(changes).tensors)
      if (t.bias && t.layer == 1) names.insert(fmt::format("{} [{}]", role_name(t.role, true), t.shape.at(0)));
    return names;
  };
  using Names = std::set<std::string>;
  const Names attention{"q_bias [64]", "k_bias [16]", "v_bias [16]", "attn_out_bias [64]"};
  const Names mlp{"mlp_gate_bias [176]", "mlp_up_bias [176]", "mlp_down_bias [64]"};
  EXPECT_EQ(biases("{}"), Names{});
  EXPECT_EQ(biases(R"({"attention_bias": true})"), attention);
  EXPECT_EQ(biases(R"({"mlp_bias": true})"), mlp);
  EXPECT_EQ(biases(R"({"attention_bias": true, "mlp_bias": true})").size(), attention.size() + mlp.size());
}

TEST(ModelSpec, OnlyAFamilyWithWindowsReadsOne) {
  EXPECT_EQ(spec_with(R"({"sliding_window": 16})").windows, (std::vector<std::int64_t>(2, 0)));
  EXPECT_EQ(spec_with(R"({"architectures": ["MistralForCausalLM"], "sliding_window": 16})").windows,
            (std::vector<std::int64_t>(2, 16)));
  EXPECT_EQ(spec_with(R"({"architectures": ["MistralForCausalLM"], "sliding_window": null})").windows,
            (std::vector<std::int64_t>(2, 0)));
  EXPECT_EQ(spec_with(R"({"architectures": ["MistralForCausalLM"]})").windows, (std::vector<std::int64_t>(2, 0)));
}

TEST(ModelSpec, PatternsStandForWholeNumbers) {
  EXPECT_TRUE(matches_pattern("a.{L}.b", "a.0.b"));
  EXPECT_TRUE(matches_pattern("a.{L}.b", "a.123.b"));
  EXPECT_TRUE(matches_pattern("a.b", "a.b"));
  for (const char* name : {"a..b", "a.x.b", "a.1.bc", "a.1x.b", "a.1", "b.1.b", "a.-1.b", ""})
    EXPECT_FALSE(matches_pattern("a.{L}.b", name)) << name;
}

TEST(Families, TablesAreShortAndSayEachThingOnce) {
  std::set<std::string_view> architectures;
  std::set<std::string_view> families;
  for (const FamilySpec* family : all_families()) {
    EXPECT_TRUE(families.insert(family->name).second) << family->name;
    EXPECT_FALSE(family->tensors.empty());
    for (const auto name : family->architectures) {
      EXPECT_TRUE(architectures.insert(name).second) << name;
      EXPECT_EQ(family_of(name), family);
    }
    std::set<std::pair<std::string_view, When>> rows;  // a packing each may claim one name
    for (const TensorRow& row : family->tensors) EXPECT_TRUE(rows.insert({row.name, row.when}).second) << row.name;
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TPINFER_LIB "/model/families")) {
    std::ifstream file(entry.path());
    std::string line;
    int lines = 0;
    while (std::getline(file, line)) ++lines;
    EXPECT_LE(lines, 80) << entry.path();
    EXPECT_GT(lines, 5) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, all_families().size());
}

}  // namespace
}  // namespace tpinfer
