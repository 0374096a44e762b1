#include "app/cmd_models.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "model/families.hpp"
#include "shard/role_rules.hpp"

namespace tpinfer {
namespace {

using Words = std::vector<std::string>;

/// Tensors that are cut in the same way.
struct Part {
  std::string how;  ///< split_words()
  Split split = Split::replicated;
  Words roles;
};

std::string norm_words(const BlockSpec& block) {
  switch (block.norm) {
    case Norm::rms: return "RMSNorm";
    case Norm::rms_plus_one: return "RMSNorm by 1 + weight";
    case Norm::layer: return "LayerNorm";
  }
  return "";
}

std::string position_words(const BlockSpec& block) {
  switch (block.position) {
    case Position::rope_half: return "rotary positions";
    case Position::rope_adjacent: return "rotary positions of adjacent channels";
    case Position::learned: return "learned positions";
    case Position::alibi: return "ALiBi";
  }
  return "";
}

// The knobs of a block that a reader would ask for.
Words block_words(const FamilySpec& family) {
  const BlockSpec& block = family.block;
  Words words{norm_words(block), position_words(block), block.gated ? "gated MLP" : "plain MLP"};
  switch (block.moe) {
    case Moe::none: break;
    case Moe::renormalised: words.emplace_back("experts with weights scaled to 1"); break;
    case Moe::norm_topk_prob: words.emplace_back("experts with weights as norm_topk_prob says"); break;
  }
  const auto has = [&](auto test) { return std::ranges::any_of(family.tensors, test); };
  if (has([](const TensorRow& row) { return row.role == Role::shared_down; })) words.emplace_back("shared expert");
  if (has([](const TensorRow& row) { return row.layout == Layout::all_experts; }))
    words.emplace_back("experts in a tensor each or in one");
  if (has([](const TensorRow& row) { return row.when == When::dense_layer; }))
    words.emplace_back("dense and sparse layers");
  if (has([](const TensorRow& row) { return row.role == Role::q_norm || row.role == Role::q_heads_norm; }))
    words.emplace_back("norms of each head's q and k");
  if (has([](const TensorRow& row) { return row.role == Role::q_whole_norm; }))
    words.emplace_back("norms over all q and all k");
  if (has([](const TensorRow& row) { return row.role == Role::attn_post_norm; }))
    words.emplace_back("norms before and after attention and MLP");
  if (block.parallel)
    words.emplace_back(family.keys.parallel.empty() ? "attention and MLP in parallel"
                                                    : "attention and MLP in parallel or in sequence");
  if (!family.keys.residual_scale.empty()) words.emplace_back("scales of embedding, residual, scores and logits");
  if (block.scaled_embedding) words.emplace_back("scaled embedding");
  if (!family.keys.attention_soft_cap.empty()) words.emplace_back("soft caps");
  if (block.window == Window::attention_types) words.emplace_back("sliding window in the layers of attention_types");
  if (block.window == Window::alternate) words.emplace_back("sliding window in every other layer");
  if (block.kv_heads == KvHeads::grouped_flag) words.emplace_back("multi-query, multi-head or grouped attention");
  if (block.kv_heads == KvHeads::multi_query_flag) words.emplace_back("multi-query or multi-head attention");
  if (block.window == Window::when_set) words.emplace_back("sliding window when the config has one");
  if (block.window == Window::when_used) words.emplace_back("sliding window with use_sliding_window");
  return words;
}

// In the order of the table, whole tensors last.
std::vector<Part> parts_of(const FamilySpec& family) {
  std::vector<Part> parts;
  const auto add = [&](const TensorRow& row, bool bias) {
    const std::string_view how = split_words(row.role, bias, row.fusion);
    auto part = std::ranges::find(parts, how, &Part::how);
    if (part == parts.end()) part = parts.insert(part, {std::string(how), role_split(row.role, bias, row.fusion), {}});
    const std::string role = role_name(row.role, bias);
    if (std::ranges::find(part->roles, role) == part->roles.end()) part->roles.push_back(role);
  };
  for (const TensorRow& row : family.tensors) {
    if (row.weight != Need::never) add(row, false);
    if (row.bias != Need::never) add(row, true);
  }
  std::ranges::stable_partition(parts, [](const Part& part) { return part.split != Split::replicated; });
  return parts;
}

std::string text() {
  std::string out;
  for (const FamilySpec* family : all_families()) {
    out += fmt::format("{}: {}\n  {}\n", family->name, fmt::join(family->architectures, ", "),
                       fmt::join(block_words(*family), ", "));
    for (const Part& part : parts_of(*family)) out += fmt::format("  {}: {}\n", part.how, fmt::join(part.roles, ", "));
    out += '\n';
  }
  return out + "everything else is refused by name\n";
}

std::string markdown() {
  std::string out = "| family | architectures | block |\n|---|---|---|\n";
  for (const FamilySpec* family : all_families())
    out += fmt::format("| {} | `{}` | {} |\n", family->name, fmt::join(family->architectures, "`, `"),
                       fmt::join(block_words(*family), ", "));
  return out;
}

Json json() {
  Json families = Json::array();
  for (const FamilySpec* family : all_families()) {
    Json parts = Json::array();
    for (const Part& part : parts_of(*family))
      parts.push_back({{"how", part.how}, {"split", split_name(part.split)}, {"roles", part.roles}});
    families.push_back({{"family", family->name},
                        {"architectures", family->architectures},
                        {"block", block_words(*family)},
                        {"parts", parts}});
  }
  return {{"families", families}};
}

}  // namespace

int run_models(const ModelsOptions& options) {
  fmt::print("{}", options.json ? json().dump(1) + "\n" : options.markdown ? markdown() : text());
  return 0;
}

}  // namespace tpinfer
