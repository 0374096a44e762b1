#include "model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace tpinfer {
namespace {

// YaRN's attention factor (Peng et al. 2023, and modeling_rope_utils): 0.1 m ln(factor) + 1.
double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

void read_yarn(const ConfigReader& scaling, RopeSpec& rope) {
  rope.beta_fast = scaling.number_or("beta_fast", 32);
  rope.beta_slow = scaling.number_or("beta_slow", 1);
  rope.truncate = scaling.flag_or("truncate", true);
  const double mscale = scaling.number_or("mscale", 0);
  const double all_dim = scaling.number_or("mscale_all_dim", 0);
  const double standard = mscale != 0 && all_dim != 0
                              ? yarn_mscale(rope.factor, mscale) / yarn_mscale(rope.factor, all_dim)
                              : yarn_mscale(rope.factor, 1);
  rope.attention_factor = scaling.number_or("attention_factor", standard);
}

void read_scaling(const ConfigReader& scaling, std::int64_t max_positions, RopeSpec& rope) {
  const std::string type = scaling.text_or("rope_type", scaling.text_or("type", "default"));
  if (type == "default") return;
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::llama3;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
  } else {
    throw Error(ExitCode::input, fmt::format("{}: the rope_scaling type \"{}\" is not supported", scaling.file(), type),
                "supported are default, linear, llama3 and yarn");
  }
  rope.factor = scaling.number("factor");
  if (!(rope.factor > 0))
    fail_input("{}: {} must be above 0, found {}", scaling.file(), scaling.name("factor"), rope.factor);
  rope.original_max_positions = scaling.count_or("original_max_position_embeddings", max_positions);
  if (rope.scaling == RopeScaling::llama3) {
    rope.low_freq_factor = scaling.number("low_freq_factor");
    rope.high_freq_factor = scaling.number("high_freq_factor");
    if (!(rope.low_freq_factor > 0) || !(rope.high_freq_factor > rope.low_freq_factor))
      fail_input("{}: {} ({}) must lie between 0 and {} ({})", scaling.file(), scaling.name("low_freq_factor"),
                 rope.low_freq_factor, scaling.name("high_freq_factor"), rope.high_freq_factor);
  }
  if (rope.scaling == RopeScaling::yarn) read_yarn(scaling, rope);
}

void scale_llama3(const RopeSpec& rope, std::vector<double>& inverse) {
  const auto old_context = static_cast<double>(rope.original_max_positions);
  for (double& f : inverse) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength < old_context / rope.high_freq_factor) continue;
    if (wavelength > old_context / rope.low_freq_factor) {
      f /= rope.factor;
      continue;
    }
    const double smooth =
        (old_context / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    f = (1 - smooth) * f / rope.factor + smooth * f;
  }
}

// The dimension whose wave makes `rotations` turns over the original context.
double yarn_correction_dim(const RopeSpec& rope, double rotations) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto positions = static_cast<double>(rope.original_max_positions);
  return dim * std::log(positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
}

void scale_yarn(const RopeSpec& rope, std::vector<double>& inverse) {
  double low = yarn_correction_dim(rope, rope.beta_fast);
  double high = yarn_correction_dim(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inverse[i] = inverse[i] / rope.factor * ramp + inverse[i] * (1 - ramp);
  }
}

}  // namespace

RopeSpec read_rope(const ConfigReader& config, const ConfigKeys& keys, double share, std::int64_t head_dim,
                   std::int64_t max_positions) {
  RopeSpec rope;
  const auto parameters = config.object("rope_parameters");
  const auto scaling = parameters ? parameters : config.object("rope_scaling");
  rope.theta = config.number_or(keys.rope_theta, 10000);
  if (parameters) rope.theta = parameters->number_or("rope_theta", rope.theta);
  if (!(rope.theta > 1))
    fail_input("{}: {} must be above 1, found {}", config.file(), config.name(keys.rope_theta), rope.theta);
  if (parameters) share = parameters->number_or("partial_rotary_factor", share);
  share = config.number_or(keys.rotary_share, share);
  if (!(share > 0) || share > 1)
    fail_input("{}: {} must lie in (0, 1], found {}", config.file(), config.name(keys.rotary_share), share);
  rope.rotary_dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
  if (!keys.rotary_dim.empty()) rope.rotary_dim = config.count_or(keys.rotary_dim, rope.rotary_dim);
  if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > head_dim)
    fail_input("{}: rotary embedding needs an even number of the {} channels in a head, found {}", config.file(),
               head_dim, rope.rotary_dim);
  if (scaling) read_scaling(*scaling, max_positions, rope);
  return rope;
}

std::vector<float> rope_inverse_frequencies(const RopeSpec& rope) {
  std::vector<double> inverse(static_cast<std::size_t>(rope.rotary_dim / 2));
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[i] = 1.0 / std::pow(rope.theta, 2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary_dim));
  if (rope.scaling == RopeScaling::linear)
    for (double& f : inverse) f /= rope.factor;
  if (rope.scaling == RopeScaling::llama3) scale_llama3(rope, inverse);
  if (rope.scaling == RopeScaling::yarn) scale_yarn(rope, inverse);
  return {inverse.begin(), inverse.end()};
}

RopeAngles rope_angles(const RopeSpec& rope, std::int64_t positions) {
  const std::vector<float> inverse = rope_inverse_frequencies(rope);
  RopeAngles angles;
  const std::size_t count = static_cast<std::size_t>(positions) * inverse.size();
  angles.cos.reserve(count);
  angles.sin.reserve(count);
  const auto factor = static_cast<float>(rope.attention_factor);
  for (std::int64_t p = 0; p < positions; ++p) {
    for (const float f : inverse) {
      const auto angle = static_cast<double>(static_cast<float>(p) * f);
      angles.cos.push_back(static_cast<float>(std::cos(angle)) * factor);
      angles.sin.push_back(static_cast<float>(std::sin(angle)) * factor);
    }
  }
  return angles;
}

}  // namespace tpinfer
