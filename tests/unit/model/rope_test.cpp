#include "model/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "llama_config.hpp"

namespace tpinfer {
namespace {

RopeSpec rope_with(const std::string& changes) { return spec_with(changes).rope; }

// Literals below were computed in float32 by a numpy program that follows Hugging Face's modeling_rope_utils line by
// line (its powers are float32 too, hence the tolerance).
void expect_frequencies(const RopeSpec& rope, const std::map<std::size_t, double>& expected) {
  const std::vector<float> inverse = rope_inverse_frequencies(rope);
  ASSERT_EQ(inverse.size(), static_cast<std::size_t>(rope.rotary_dim / 2));
  for (const auto& [i, value] : expected)
    EXPECT_NEAR(static_cast<double>(inverse.at(i)) / value, 1.0, 2e-6) << "frequency " << i;
}

TEST(Rope, DefaultIsAGeometricRow) {
  const RopeSpec rope = rope_with(R"({"head_dim": 16})");
  expect_frequencies(rope, {{0, 1.0}, {1, 0.3162277638912201}, {4, 0.01}, {7, 0.0003162277862429619}});
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_FLOAT_EQ(rope_inverse_frequencies(rope)[i], static_cast<float>(std::exp(-std::log(1e4) * double(i) / 8)));
}

TEST(Rope, LinearDividesAll) {
  const RopeSpec rope = rope_with(R"({"head_dim": 16, "rope_scaling": {"type": "linear", "factor": 4.0}})");
  expect_frequencies(rope, {{0, 0.25}, {1, 0.07905694097280502}, {4, 0.0025}, {7, 7.905694656074047e-05}});
}

TEST(Rope, Llama3KeepsTheFastAndBlendsTheMiddle) {
  const RopeSpec rope = rope_with(R"({"head_dim": 128, "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192}})");
  expect_frequencies(rope, {{0, 1.0},
                            {1, 0.8146172},
                            {20, 0.01656044},
                            {28, 0.003211446},
                            {29, 0.0021665706},
                            {30, 0.0013718937},
                            {33, 0.00031269365},
                            {35, 9.556213e-05},
                            {36, 7.7846555e-05},
                            {40, 3.4281024e-05},
                            {63, 3.068926e-07}});
}

TEST(Rope, YarnRampsBetweenItsTwoBorders) {
  const RopeSpec rope = rope_with(R"({"head_dim": 64, "max_position_embeddings": 8192, "rope_scaling": {"type": "yarn",
    "factor": 4.0, "original_max_position_embeddings": 2048}})");
  expect_frequencies(rope, {{0, 1.0},
                            {5, 0.23713739},
                            {10, 0.049745575},
                            {12, 0.024325214},
                            {15, 0.007949839},
                            {18, 0.0023791364},
                            {20, 0.0009730086},
                            {21, 0.00059284345},
                            {25, 0.00018747355},
                            {31, 3.3338038e-05}});
  EXPECT_NEAR(rope.attention_factor, 1.138629436111989, 1e-12);
}

TEST(Rope, YarnWithBordersThatAreNoWholeNumbers) {
  const RopeSpec rope = rope_with(R"({"head_dim": 64, "max_position_embeddings": 8192, "rope_scaling": {
    "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "beta_fast": 16, "beta_slow": 2,
    "truncate": false, "mscale": 0.8, "mscale_all_dim": 0.5}})");
  expect_frequencies(rope, {{0, 1.0},
                            {5, 0.23713739},
                            {12, 0.026607499},
                            {13, 0.017491078},
                            {15, 0.007067293},
                            {18, 0.0014058533},
                            {19, 0.0010542412},
                            {31, 3.3338038e-05}});
  EXPECT_NEAR(rope.attention_factor, 1.0388929752217428, 1e-12);
  EXPECT_EQ(rope_with(R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 0.7}})").attention_factor,
            0.7);
}

TEST(Rope, PartialRotationHasFewerChannels) {
  const RopeSpec rope = rope_with(R"({"head_dim": 64, "partial_rotary_factor": 0.25})");
  EXPECT_EQ(rope.rotary_dim, 16);
  expect_frequencies(rope, {{1, 0.3162277638912201}});
}

TEST(Rope, AnglesAreFloat32ProductsTimesTheFactor) {
  RopeSpec rope = rope_with(R"({"head_dim": 16})");
  rope.attention_factor = 1.25;
  const std::vector<float> inverse = rope_inverse_frequencies(rope);
  const RopeAngles angles = rope_angles(rope, 3000);
  ASSERT_EQ(angles.cos.size(), 3000U * 8U);
  for (const std::size_t position : {std::size_t{0}, std::size_t{1}, std::size_t{77}, std::size_t{2999}}) {
    for (std::size_t i = 0; i < 8; ++i) {
      const float angle = static_cast<float>(position) * inverse[i];  // rounded to float32 before cos and sin
      EXPECT_NEAR(angles.cos[position * 8 + i], 1.25 * std::cos(static_cast<double>(angle)), 2e-7);
      EXPECT_NEAR(angles.sin[position * 8 + i], 1.25 * std::sin(static_cast<double>(angle)), 2e-7);
    }
  }
}

}  // namespace
}  // namespace tpinfer
