#include "model/model_spec.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/text_distance.hpp"
#include "model/block_settings.hpp"
#include "model/expected_tensors.hpp"
#include "model/families.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kMostLayers = 1024;
constexpr std::int64_t kMostExperts = 1024;

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// What config.json calls the model, for complaints.
std::string name_of_model(const ConfigReader& config) {
  const Json* list = config.find("architectures");
  if (list && list->is_array() && !list->empty() && (*list)[0].is_string()) return (*list)[0].get<std::string>();
  const Json* type = config.find("model_type");
  return type && type->is_string() ? type->get<std::string>() : "the model";
}

void refuse_what_is_not_supported(const ConfigReader& config) {
  if (const auto quantisation = config.object("quantization_config")) {
    const std::string method =
        quantisation->text_or("quant_method", quantisation->has("load_in_4bit") ? "bitsandbytes" : "unknown");
    throw Error(ExitCode::input,
                fmt::format("{}: quantization_config says that the checkpoint is quantised with {}, which is not "
                            "supported",
                            config.file(), method),
                "use the float16, bfloat16 or float32 checkpoint of the model");
  }
  if (config.flag_or("is_encoder_decoder", false))
    throw Error(
        ExitCode::input,
        fmt::format("{}: {} is an encoder-decoder model, which is not supported", config.file(), name_of_model(config)),
        "supported are the decoder-only models " + join(supported_architectures()));
}

std::shared_ptr<const FamilySpec> read_family(const ConfigReader& config, const std::string& architecture) {
  if (const FamilySpec* family = family_of(architecture)) return {std::shared_ptr<void>(), family};
  const auto supported = supported_architectures();
  const std::string near = nearest_word(architecture, supported);
  throw UnknownArchitecture(ExitCode::input,
                            fmt::format("{}: the architecture {} is not supported", config.file(), architecture),
                            near.empty() ? "supported are " + join(supported)
                                         : "the nearest supported one is " + near + "; all: " + join(supported));
}

ActivationKind read_activation(const ConfigReader& config, std::string_view key, std::string_view fallback) {
  const std::string name = config.text_or(key, std::string(fallback));
  if (name == "silu" || name == "swish") return ActivationKind::silu;
  if (name == "gelu") return ActivationKind::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return ActivationKind::gelu_tanh;
  if (name == "relu") return ActivationKind::relu;
  throw Error(ExitCode::input, fmt::format("{}: the activation {} \"{}\" is not supported", config.file(), key, name),
              "supported are silu, gelu, gelu_new, gelu_pytorch_tanh and relu");
}

void read_heads(const ConfigReader& config, const ConfigKeys& keys, ModelSpec& spec) {
  spec.q_heads = config.count(keys.heads);
  const KvHeads rule = spec.family->block.kv_heads;
  if (rule == KvHeads::from_key || (rule == KvHeads::grouped_flag && has_grouped_decoder(config)))
    spec.kv_heads = config.count_or(keys.kv_heads, spec.q_heads);
  else
    spec.kv_heads = config.flag_or("multi_query", true) ? 1 : spec.q_heads;
  if (spec.kv_heads > spec.q_heads || spec.q_heads % spec.kv_heads != 0)
    fail_input("{}: {} ({}) must be a multiple of {} ({})", config.file(), config.name(keys.heads), spec.q_heads,
               config.name(keys.kv_heads), spec.kv_heads);
  if (!config.has(keys.head_dim) && spec.hidden % spec.q_heads != 0)
    fail_input("{}: {} ({}) does not divide {} ({}) and there is no {}", config.file(), config.name(keys.heads),
               spec.q_heads, config.name(keys.hidden), spec.hidden, keys.head_dim);
  spec.head_dim = config.count_or(keys.head_dim, spec.hidden / spec.q_heads);
}

void read_sizes(const ConfigReader& config, ModelSpec& spec) {
  const ConfigKeys& keys = spec.family->keys;
  spec.hidden = config.count(keys.hidden);
  spec.layers = config.count(keys.layers);
  if (spec.layers > kMostLayers)
    fail_input("{}: {} is {}, more than {}", config.file(), keys.layers, spec.layers, kMostLayers);
  read_heads(config, keys, spec);
  std::int64_t factor = spec.family->block.ffn_factor;
  if (!keys.ffn_factor.empty()) factor = config.count_or(keys.ffn_factor, factor);
  spec.ffn = factor > 0 ? config.count_or(keys.ffn, factor * spec.hidden) : config.count(keys.ffn);
  spec.vocab = config.count("vocab_size");
  for (const auto& [key, value] : {std::pair{keys.hidden, spec.hidden},
                                   {keys.ffn, spec.ffn},
                                   {std::string_view("vocab_size"), spec.vocab},
                                   {keys.heads, spec.q_heads},
                                   {keys.head_dim, spec.head_dim}})
    if (value > (1 << 28)) fail_input("{}: {} is {}, more than {}", config.file(), config.name(key), value, 1 << 28);
  spec.max_positions = config.count_or(keys.max_positions, 2048);
  spec.norm_epsilon = config.number_or(keys.norm_epsilon, spec.family->block.norm_epsilon);
  spec.activation = read_activation(config, keys.activation, spec.family->block.activation);
  spec.tied_head = config.flag_or("tie_word_embeddings", spec.family->block.tied_by_default);
  spec.attention_bias = config.flag_or(keys.attention_bias, spec.family->block.biased_by_default);
  spec.qk_norm = config.flag_or("use_qk_norm", false);
  spec.mlp_bias = config.flag_or(keys.mlp_bias, spec.family->block.biased_by_default);
}

// Which layers are mixtures: all of them, but for mlp_only_layers and those between the steps of decoder_sparse_step.
void read_sparse_layers(const ConfigReader& config, ModelSpec& spec) {
  const std::int64_t step = config.count_or("decoder_sparse_step", 1);
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    spec.sparse_layer[static_cast<std::size_t>(layer)] = (layer + 1) % step == 0 ? 1 : 0;
  const Json* dense = config.find("mlp_only_layers");
  if (!dense) return;
  if (!dense->is_array()) fail_input("{}: mlp_only_layers must be a list, found {}", config.file(), dense->dump());
  for (const Json& layer : *dense) {
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() >= static_cast<std::uint64_t>(spec.layers))
      fail_input("{}: mlp_only_layers holds {}, the model has {} layers", config.file(), layer.dump(), spec.layers);
    spec.sparse_layer[layer.get<std::size_t>()] = 0;
  }
}

void read_experts(const ConfigReader& config, ModelSpec& spec) {
  spec.sparse_layer.assign(static_cast<std::size_t>(spec.layers), 0);
  const Moe moe = spec.family->block.moe;
  if (moe == Moe::none) return;
  const ConfigKeys& keys = spec.family->keys;
  spec.experts = config.count(keys.experts);
  spec.experts_per_token = config.count(keys.experts_per_token);
  if (spec.experts > kMostExperts)
    fail_input("{}: {} is {}, more than {}", config.file(), keys.experts, spec.experts, kMostExperts);
  if (spec.experts_per_token > spec.experts)
    fail_input("{}: {} ({}) is more than {} ({})", config.file(), keys.experts_per_token, spec.experts_per_token,
               keys.experts, spec.experts);
  spec.expert_ffn = config.count(keys.expert_ffn);
  const bool shared =
      std::ranges::any_of(spec.family->tensors, [](const TensorRow& row) { return row.role == Role::shared_down; });
  if (shared) spec.shared_ffn = config.count(keys.shared_ffn);
  spec.renormalise_experts = moe == Moe::renormalised || config.flag_or("norm_topk_prob", false);
  read_sparse_layers(config, spec);
}

void read_dtype(const ConfigReader& config, ModelSpec& spec) {
  const std::string_view key = config.has("dtype") ? "dtype" : "torch_dtype";
  if (!config.has(key)) return;
  const std::string name = config.text_or(key, "");
  spec.config_dtype = dtype_from_name(name);
  if (!spec.config_dtype)
    fail_input("{}: the type {} \"{}\" is not supported (float32, float16 and bfloat16 are)", config.file(), key, name);
}

}  // namespace

std::string read_architecture(const Json& config, const std::string& file) {
  const auto list = config.is_object() ? config.find("architectures") : config.end();
  if (list == config.end() || list->is_null())
    fail_input("{}: \"architectures\" is missing, so the kind of model is unknown", file);
  if (!list->is_array() || list->size() != 1 || !(*list)[0].is_string())
    fail_input("{}: \"architectures\" must name one architecture, found {}", file, list->dump());
  return (*list)[0].get<std::string>();
}

ModelSpec make_model_spec(const Json& json, const std::string& file, std::shared_ptr<const FamilySpec> family) {
  const ConfigReader config(json, file);
  refuse_what_is_not_supported(config);
  ModelSpec spec;
  spec.architecture = read_architecture(json, file);
  spec.family = family ? std::move(family) : read_family(config, spec.architecture);
  read_sizes(config, spec);
  read_block_settings(config, spec);
  read_experts(config, spec);
  read_dtype(config, spec);
  spec.eos_token_ids = read_eos_ids(json, file);
  spec.ignore_patterns.assign(spec.family->ignore.begin(), spec.family->ignore.end());
  spec.tensors = expected_tensors(spec);
  return spec;
}

std::int64_t ModelSpec::lookback() const noexcept {
  if (windows.empty() || std::ranges::find(windows, 0) != windows.end()) return 0;
  return std::ranges::max(windows);
}

bool ModelSpec::has_layers(bool sparse) const noexcept {
  return std::ranges::find(sparse_layer, sparse ? 1 : 0) != sparse_layer.end();
}

bool ModelSpec::has(Role role, bool bias) const noexcept {
  return std::ranges::any_of(tensors, [&](const ExpectedTensor& t) { return t.role == role && t.bias == bias; });
}

std::vector<std::int32_t> read_eos_ids(const Json& config, const std::string& file) {
  std::vector<std::int32_t> ids;
  const auto at = config.find("eos_token_id");
  if (at == config.end() || at->is_null()) return ids;
  const auto add = [&](const Json& id) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > 0x7fffffff)
      fail_input("{}: eos_token_id must be a token id or a list of them, found {}", file, at->dump());
    ids.push_back(id.get<std::int32_t>());
  };
  if (at->is_array())
    for (const Json& id : *at) add(id);
  else
    add(*at);
  return ids;
}

bool matches_pattern(std::string_view pattern, std::string_view name) noexcept {
  const auto at = pattern.find("{L}");
  if (at == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, at))) return false;
  const std::string_view rest = name.substr(at);
  const auto digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  return digits > 0 && rest.substr(digits) == pattern.substr(at + 3);
}

}  // namespace tpinfer
