#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config_reader.hpp"
#include "model/family_spec.hpp"

namespace tpinfer {

enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn };

/// Rotary position embedding as the config describes it (both spellings: rope_scaling + rope_theta, and
/// rope_parameters).
struct RopeSpec {
  double theta = 10000;
  std::int64_t rotary_dim = 0;  ///< even, <= head_dim
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  bool truncate = true;                              // yarn: whole-numbered correction range
  double attention_factor = 1;                       // yarn: cos and sin are multiplied by it
  std::int64_t original_max_positions = 0;           // llama3, yarn
};

/// Reads the rotary settings under the family's keys; `share` of a head's channels is rotated when the config does not
/// say. A scaling type that is not one of RopeScaling is an Error(input) that names it.
RopeSpec read_rope(const ConfigReader& config, const ConfigKeys& keys, double share, std::int64_t head_dim,
                   std::int64_t max_positions);

/// Inverse frequencies [rotary_dim / 2], float32 as Hugging Face's modeling_rope_utils computes them.
std::vector<float> rope_inverse_frequencies(const RopeSpec& rope);

struct RopeAngles {
  std::vector<float> cos, sin;  ///< [positions, rotary_dim / 2]
};

/// Tables for positions 0 .. positions - 1: angle = float32(position * inverse frequency), cos and sin times
/// attention_factor.
RopeAngles rope_angles(const RopeSpec& rope, std::int64_t positions);

}  // namespace tpinfer
