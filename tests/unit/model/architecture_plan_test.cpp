#include "model/architecture_plan.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "llama_config.hpp"

namespace tpinfer {
namespace {

Json whole_plan() {
  return parse_json(R"({"tensors": {"wte": "token_embedding", "layers.*.n1": "attn_norm + bias", "layers.*.q": "q",
    "layers.*.k": "k", "layers.*.v": "v + bias", "layers.*.o": "attn_out", "layers.*.n2": "mlp_norm",
    "layers.*.g": "mlp_gate", "layers.*.u": "mlp_up", "layers.*.d": "mlp_down", "norm": "final_norm",
    "head": "lm_head"}, "ignore": ["layers.*.inv_freq"], "block": {"norm": "layer", "gated": true}})",
                    "plan");
}

std::string complaint(const Json& plan) {
  try {
    family_from_plan(plan, "plan.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::input);
    EXPECT_TRUE(std::string(error.what()).starts_with("plan.yaml: ")) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(ArchitecturePlan, RolesGiveShapesAsThoseOfATable) {
  const ModelSpec spec = make_model_spec(config_with(R"({"architectures": ["OwnForCausalLM"]})"), "config.json",
                                         family_from_plan(whole_plan(), "plan.yaml"));
  EXPECT_EQ(spec.architecture, "OwnForCausalLM");
  EXPECT_EQ(spec.tensors.size(), 2U * (9 + 2) + 3);
  EXPECT_TRUE(spec.has(Role::attn_norm, true));
  EXPECT_FALSE(spec.has(Role::mlp_norm, true));
  for (const ExpectedTensor& tensor : spec.tensors) {
    if (tensor.name == "layers.1.k.weight") {
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{16, 64}));
    }
    if (tensor.name == "layers.0.v.bias") {
      EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{16}));
    }
  }
  EXPECT_EQ(spec.ignore_patterns, std::vector<std::string>{"layers.{L}.inv_freq"});
}

TEST(ArchitecturePlan, WhatIsWrongIsNamed) {
  Json plan = whole_plan();
  plan["tensors"]["layers.*.q"] = "query";
  EXPECT_NE(complaint(plan).find("the role of layers.*.q is \"query\""), std::string::npos);
  plan = whole_plan();
  plan["tensors"]["layers.*.q"] = "atn_out";
  EXPECT_NE(complaint(plan).find("did you mean attn_out?"), std::string::npos) << complaint(plan);
  plan = whole_plan();
  plan["tensors"].erase("layers.*.d");
  EXPECT_NE(complaint(plan).find("no tensor has the role mlp_down"), std::string::npos);
  plan = whole_plan();
  plan["tensors"].erase("layers.*.k");
  EXPECT_NE(complaint(plan).find("qkv, or q, k and v"), std::string::npos);
  plan = whole_plan();
  plan["tensors"].erase("head");
  EXPECT_NE(complaint(plan).find("lm_head (or set block.tied)"), std::string::npos);
  plan["block"]["tied"] = true;
  EXPECT_EQ(complaint(plan), "accepted");
  plan["tensors"]["layers.*.q2"] = "q";
  EXPECT_NE(complaint(plan).find("have the same role"), std::string::npos);
  plan = whole_plan();
  plan["tensors"]["layers.*.*.x"] = "q_norm";
  EXPECT_NE(complaint(plan).find("at most one *"), std::string::npos);
  plan = whole_plan();
  plan["block"]["norm"] = "batch";
  EXPECT_NE(complaint(plan).find("block.norm is \"batch\""), std::string::npos);
  plan["block"] = {{"heads", 3}};
  EXPECT_NE(complaint(plan).find("block.heads is unknown"), std::string::npos);
  EXPECT_NE(complaint(Json::array()).find("a mapping with \"tensors\""), std::string::npos);
  EXPECT_NE(complaint({{"tensor", 1}}).find("tensor is unknown"), std::string::npos);
}

}  // namespace
}  // namespace tpinfer
