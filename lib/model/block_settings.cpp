#include "model/block_settings.hpp"

#include <bit>
#include <cmath>

#include "core/error.hpp"

namespace tpinfer {
namespace {

// A number that scales or limits; 0 and below are nonsense.
double positive_or(const ConfigReader& config, std::string_view key, double fallback) {
  if (key.empty() || !config.has(key)) return fallback;
  const double value = config.number(key);
  if (!(value > 0)) fail_input("{}: {} must be above 0, found {}", config.file(), config.name(key), value);
  return value;
}

void refuse_other_flags(const ConfigReader& config, const FamilySpec& family) {
  for (const FixedFlag& flag : family.fixed)
    if (config.flag_or(flag.key, flag.value) != flag.value)
      throw Error(ExitCode::input,
                  fmt::format("{}: {} is {}, which is not supported", config.file(), flag.key, !flag.value),
                  fmt::format("models of the family {} run with {}: {}", family.name, flag.key, flag.value));
}

void read_residual(const ConfigReader& config, ModelSpec& spec) {
  const FamilySpec& family = *spec.family;
  spec.parallel = family.keys.parallel.empty() ? family.block.parallel
                                               : config.flag_or(family.keys.parallel, family.block.parallel);
  const bool grouped = family.block.kv_heads == KvHeads::grouped_flag && has_grouped_decoder(config);
  spec.norms_in_parallel = grouped && spec.parallel && config.count_or("num_ln_in_parallel_attn", 2) == 2 ? 2 : 1;
  spec.norm_offset = family.block.norm == Norm::rms_plus_one ? 1 : 0;
  spec.residual_scale = positive_or(config, family.keys.residual_scale, 1);
}

void read_scales(const ConfigReader& config, ModelSpec& spec) {
  const ConfigKeys& keys = spec.family->keys;
  const auto root = [](std::int64_t n) { return std::sqrt(static_cast<double>(n)); };
  spec.embedding_scale =
      positive_or(config, keys.embedding_scale, spec.family->block.scaled_embedding ? root(spec.hidden) : 1);
  spec.logit_scale = positive_or(config, keys.logit_scale, 1) / positive_or(config, keys.logit_divisor, 1);
  spec.logit_soft_cap = positive_or(config, keys.logit_soft_cap, 0);
  spec.attention_soft_cap = positive_or(config, keys.attention_soft_cap, 0);
  spec.qkv_clip = positive_or(config, keys.qkv_clip, 0);
  const bool scaled = config.flag_or("scale_attn_weights", spec.family->block.scaled_scores);
  spec.attention_scale =
      scaled ? 1 / std::sqrt(positive_or(config, keys.query_scalar, static_cast<double>(spec.head_dim))) : 1;
  spec.attention_scale = positive_or(config, keys.attention_scale, spec.attention_scale);
}

void read_position(const ConfigReader& config, ModelSpec& spec) {
  const FamilySpec& family = *spec.family;
  spec.position = family.block.position;
  switch (spec.position) {
    case Position::rope_half:
    case Position::rope_adjacent:
      spec.rope = read_rope(config, family.keys, family.block.rotary_share, spec.head_dim, spec.max_positions);
      break;
    case Position::alibi: spec.alibi_slopes = alibi_slopes(spec.q_heads); break;
    case Position::learned: break;
  }
}

bool is_windowed(const ConfigReader& config, const Json& kinds, std::size_t layer) {
  const Json& kind = kinds[layer];
  if (kind == "sliding_attention") return true;
  if (kind != "full_attention")
    throw Error(ExitCode::input,
                fmt::format("{}: layer_types holds {}, which is not supported", config.file(), kind.dump()),
                "supported are full_attention and sliding_attention");
  return false;
}

// [[["global", "local"], 12]] -> global, local, global, ...
std::vector<bool> local_layers(const ConfigReader& config, std::size_t layers) {
  const Json* types = config.find("attention_types");
  std::vector<bool> local;
  const auto bad = [&] {
    fail_input("{}: attention_types must be [[[\"global\", \"local\"], repeats], ...] for {} layers", config.file(),
               layers);
  };
  if (!types || !types->is_array()) bad();
  for (const Json& part : *types) {
    if (!part.is_array() || part.size() != 2 || !part[0].is_array() || !part[1].is_number_unsigned()) bad();
    for (std::uint64_t i = 0; i < part[1].get<std::uint64_t>() && local.size() < layers; ++i)
      for (const Json& kind : part[0]) {
        if (kind != "global" && kind != "local") bad();
        local.push_back(kind == "local");
      }
  }
  if (local.size() != layers) bad();
  return local;
}

void read_windows(const ConfigReader& config, ModelSpec& spec) {
  spec.windows.assign(static_cast<std::size_t>(spec.layers), 0);
  const Window rule = spec.family->block.window;
  const Json* kinds = rule == Window::none ? nullptr : config.find("layer_types");
  if (rule == Window::none || (!kinds && rule == Window::when_used && !config.flag_or("use_sliding_window", false)))
    return;
  if (kinds && (!kinds->is_array() || kinds->size() != spec.windows.size()))
    fail_input("{}: layer_types must be a list of {} layers", config.file(), spec.layers);
  const std::int64_t window = config.count_or(spec.family->keys.window, 0);
  std::size_t first = 0;
  if (rule == Window::when_used && config.number_or("max_window_layers", 0) > 0)
    first = static_cast<std::size_t>(config.count("max_window_layers"));
  const std::size_t step = rule == Window::alternate ? 2 : 1;
  std::vector<bool> local;
  if (rule == Window::attention_types) local = local_layers(config, spec.windows.size());
  const auto windowed = [&](std::size_t layer) {
    if (kinds) return is_windowed(config, *kinds, layer);
    return local.empty() ? layer >= first && layer % step == 0 : local[layer];
  };
  for (std::size_t layer = 0; layer < spec.windows.size(); ++layer)
    if (windowed(layer)) spec.windows[layer] = window;
}

}  // namespace

void read_block_settings(const ConfigReader& config, ModelSpec& spec) {
  refuse_other_flags(config, *spec.family);
  read_residual(config, spec);
  read_scales(config, spec);
  read_position(config, spec);
  read_windows(config, spec);
}

bool has_grouped_decoder(const ConfigReader& config) {
  return config.flag_or("new_decoder_architecture", config.has("n_head_kv"));
}

std::vector<float> alibi_slopes(std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto slope = [](std::int64_t i, std::int64_t of) {
    return static_cast<float>(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(of)));
  };
  std::vector<float> slopes;
  for (std::int64_t i = 1; i <= power; ++i) slopes.push_back(slope(i, power));
  for (std::int64_t i = 1; i <= heads - power; ++i) slopes.push_back(slope(2 * i - 1, 2 * power));
  return slopes;
}

}  // namespace tpinfer
