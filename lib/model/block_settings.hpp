#pragma once

#include "model/config_reader.hpp"
#include "model/model_spec.hpp"

namespace tpinfer {

/// Resolves what a family's knobs leave to config.json: positions, attention windows, scales, limits and the shape of
/// the residual stream. The sizes of `spec` are known before. Error(input) names the key.
void read_block_settings(const ConfigReader& config, ModelSpec& spec);

/// KvHeads::grouped_flag: whether the count of KV heads counts (and, in parallel, layers have two norms).
bool has_grouped_decoder(const ConfigReader& config);

/// Slopes of ALiBi for `heads` query heads, 2^(-8 i / heads) for a power of two of them; between two powers the
/// larger one's odd slopes are put behind (Press et al. 2022, and Hugging Face's build_alibi_tensor).
std::vector<float> alibi_slopes(std::int64_t heads);

}  // namespace tpinfer
