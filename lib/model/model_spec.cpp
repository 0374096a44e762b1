#include "model/model_spec.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/text_distance.hpp"
#include "model/families.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kMostLayers = 4096;

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string read_architecture(const ConfigReader& config) {
  const Json* list = config.find("architectures");
  if (!list) fail_input("{}: \"architectures\" is missing, so the kind of model is unknown", config.file());
  if (!list->is_array() || list->size() != 1 || !(*list)[0].is_string())
    fail_input("{}: \"architectures\" must name one architecture, found {}", config.file(), list->dump());
  return (*list)[0].get<std::string>();
}

void refuse_what_is_not_supported(const ConfigReader& config) {
  if (const auto quantisation = config.object("quantization_config")) {
    const std::string method =
        quantisation->text_or("quant_method", quantisation->has("load_in_4bit") ? "bitsandbytes" : "unknown");
    throw Error(ExitCode::input,
                fmt::format("{}: the checkpoint is quantised with {}, which is not supported", config.file(), method),
                "use the float16, bfloat16 or float32 checkpoint of the model");
  }
  if (config.flag_or("is_encoder_decoder", false))
    fail_input("{}: an encoder-decoder model is not supported, only decoder-only models are", config.file());
}

const FamilySpec& read_family(const ConfigReader& config, const std::string& architecture) {
  if (const FamilySpec* family = family_of(architecture)) return *family;
  const auto supported = supported_architectures();
  const std::string near = nearest_word(architecture, supported);
  throw Error(ExitCode::input, fmt::format("{}: the architecture {} is not supported", config.file(), architecture),
              near.empty() ? "supported are " + join(supported)
                           : "the nearest supported one is " + near + "; all: " + join(supported));
}

ActivationKind read_activation(const ConfigReader& config, std::string_view key) {
  const std::string name = config.text_or(key, "silu");
  if (name == "silu" || name == "swish") return ActivationKind::silu;
  if (name == "gelu") return ActivationKind::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return ActivationKind::gelu_tanh;
  if (name == "relu") return ActivationKind::relu;
  throw Error(ExitCode::input, fmt::format("{}: the activation {} \"{}\" is not supported", config.file(), key, name),
              "supported are silu, gelu, gelu_new, gelu_pytorch_tanh and relu");
}

void read_heads(const ConfigReader& config, const ConfigKeys& keys, ModelSpec& spec) {
  spec.q_heads = config.count(keys.heads);
  spec.kv_heads = config.count_or(keys.kv_heads, spec.q_heads);
  if (spec.kv_heads > spec.q_heads || spec.q_heads % spec.kv_heads != 0)
    fail_input("{}: {} ({}) must be a multiple of {} ({})", config.file(), keys.heads, spec.q_heads, keys.kv_heads,
               spec.kv_heads);
  if (!config.has(keys.head_dim) && spec.hidden % spec.q_heads != 0)
    fail_input("{}: {} ({}) does not divide {} ({}) and there is no {}", config.file(), keys.heads, spec.q_heads,
               keys.hidden, spec.hidden, keys.head_dim);
  spec.head_dim = config.count_or(keys.head_dim, spec.hidden / spec.q_heads);
}

void read_sizes(const ConfigReader& config, ModelSpec& spec) {
  const ConfigKeys& keys = spec.family->keys;
  spec.hidden = config.count(keys.hidden);
  spec.layers = config.count(keys.layers);
  if (spec.layers > kMostLayers)
    fail_input("{}: {} is {}, more than {}", config.file(), keys.layers, spec.layers, kMostLayers);
  read_heads(config, keys, spec);
  spec.ffn = config.count(keys.ffn);
  spec.vocab = config.count("vocab_size");
  for (const auto& [key, value] : {std::pair{keys.hidden, spec.hidden},
                                   {keys.ffn, spec.ffn},
                                   {std::string_view("vocab_size"), spec.vocab},
                                   {keys.heads, spec.q_heads},
                                   {keys.head_dim, spec.head_dim}})
    if (value > (1 << 28)) fail_input("{}: {} is {}, more than {}", config.file(), key, value, 1 << 28);
  spec.max_positions = config.count_or(keys.max_positions, 2048);
  spec.norm_epsilon = config.number_or(keys.norm_epsilon, 1e-6);
  spec.activation = read_activation(config, keys.activation);
  spec.tied_head = config.flag_or("tie_word_embeddings", spec.family->block.tied_by_default);
  spec.attention_bias = config.flag_or("attention_bias", false);
  spec.mlp_bias = config.flag_or("mlp_bias", false);
  if (spec.family->block.window == Window::when_set) spec.window = config.count_or(keys.window, 0);
}

void read_dtype(const ConfigReader& config, ModelSpec& spec) {
  const std::string_view key = config.has("dtype") ? "dtype" : "torch_dtype";
  if (!config.has(key)) return;
  const std::string name = config.text_or(key, "");
  spec.config_dtype = dtype_from_name(name);
  if (!spec.config_dtype)
    fail_input("{}: the type {} \"{}\" is not supported (float32, float16 and bfloat16 are)", config.file(), key, name);
}

bool needed(Need need, const ModelSpec& spec) {
  switch (need) {
    case Need::required:
    case Need::unless_tied:
      return true;
    case Need::never:
      return false;
    case Need::with_attention_bias:
      return spec.attention_bias;
    case Need::with_mlp_bias:
      return spec.mlp_bias;
  }
  return false;
}

// Stored shape of a weight: it follows from the role.
std::vector<std::int64_t> weight_shape(Role role, const ModelSpec& s) {
  const std::int64_t q = s.q_heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  switch (role) {
    case Role::token_embedding:
    case Role::lm_head:
      return {s.vocab, s.hidden};
    case Role::position_embedding:
      return {s.max_positions, s.hidden};
    case Role::attn_norm:
    case Role::mlp_norm:
    case Role::final_norm:
      return {s.hidden};
    case Role::q:
      return {q, s.hidden};
    case Role::k:
    case Role::v:
      return {kv, s.hidden};
    case Role::qkv:
      return {q + 2 * kv, s.hidden};
    case Role::attn_out:
      return {s.hidden, q};
    case Role::mlp_gate:
    case Role::mlp_up:
      return {s.ffn, s.hidden};
    case Role::mlp_gate_up:
      return {2 * s.ffn, s.hidden};
    case Role::mlp_down:
      return {s.hidden, s.ffn};
  }
  return {};
}

std::string with_layer(std::string_view pattern, std::int64_t layer) {
  std::string name(pattern);
  if (const auto at = name.find("{L}"); at != std::string::npos) name.replace(at, 3, std::to_string(layer));
  return name;
}

void expect_tensors(ModelSpec& spec) {
  const auto add = [&spec](const TensorRow& row, std::int32_t layer) {
    ExpectedTensor tensor{.name = with_layer(row.name, layer) + ".weight",
                          .role = row.role,
                          .fusion = row.fusion,
                          .layer = layer,
                          .shape = weight_shape(row.role, spec),
                          .ignored = row.weight == Need::unless_tied && spec.tied_head};
    const std::string bias_name = with_layer(row.name, layer) + ".bias";
    if (needed(row.weight, spec)) spec.tensors.push_back(tensor);
    if (!needed(row.bias, spec)) return;
    tensor.name = bias_name;
    tensor.bias = true;
    tensor.shape.resize(1);
    spec.tensors.push_back(std::move(tensor));
  };
  for (const TensorRow& row : spec.family->tensors) {
    const bool in_layers = row.name.find("{L}") != std::string_view::npos;
    for (std::int64_t layer = 0; layer < (in_layers ? spec.layers : 1); ++layer)
      add(row, in_layers ? static_cast<std::int32_t>(layer) : -1);
  }
}

}  // namespace

ModelSpec make_model_spec(const Json& json, const std::string& file) {
  const ConfigReader config(json, file);
  refuse_what_is_not_supported(config);
  ModelSpec spec;
  spec.architecture = read_architecture(config);
  spec.family = &read_family(config, spec.architecture);
  read_sizes(config, spec);
  read_dtype(config, spec);
  if (spec.family->block.position == Position::rope_half)
    spec.rope = read_rope(config, spec.head_dim, spec.max_positions);
  spec.eos_token_ids = read_eos_ids(json, file);
  spec.ignore_patterns.assign(spec.family->ignore.begin(), spec.family->ignore.end());
  expect_tensors(spec);
  return spec;
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
