#include "model/architecture_plan.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/text_distance.hpp"
#include "model/config_reader.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostTensors = 200;

template <class Value>
struct Word {
  std::string_view name;
  Value value;
};

constexpr Word<Role> kRoles[] = {
    {"token_embedding", Role::token_embedding},
    {"position_embedding", Role::position_embedding},
    {"embedding_norm", Role::embedding_norm},
    {"attn_norm", Role::attn_norm},
    {"mlp_norm", Role::mlp_norm},
    {"attn_post_norm", Role::attn_post_norm},
    {"mlp_post_norm", Role::mlp_post_norm},
    {"final_norm", Role::final_norm},
    {"q_norm", Role::q_norm},
    {"k_norm", Role::k_norm},
    {"q", Role::q},
    {"k", Role::k},
    {"v", Role::v},
    {"qkv", Role::qkv},
    {"attn_out", Role::attn_out},
    {"mlp_gate", Role::mlp_gate},
    {"mlp_up", Role::mlp_up},
    {"mlp_gate_up", Role::mlp_gate_up},
    {"mlp_down", Role::mlp_down},
    {"lm_head", Role::lm_head},
};
constexpr Word<Norm> kNorms[] = {{"rms", Norm::rms}, {"rms_plus_one", Norm::rms_plus_one}, {"layer", Norm::layer}};
constexpr Word<Position> kPositions[] = {{"rope_half", Position::rope_half},
                                         {"rope_adjacent", Position::rope_adjacent},
                                         {"learned", Position::learned},
                                         {"alibi", Position::alibi}};

/// The family with the texts that its views point to.
struct OwnedFamily {
  std::deque<std::string> texts;
  std::vector<TensorRow> rows;
  std::vector<std::string_view> ignored;
  FamilySpec family;

  std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

template <class Value, std::size_t N>
Value one_of(const Word<Value> (&words)[N], std::string_view name, const std::string& file, std::string_view key) {
  std::vector<std::string> names;
  for (const Word<Value>& word : words) {
    if (word.name == name) return word.value;
    names.emplace_back(word.name);
  }
  const std::string near = nearest_word(std::string(name), names);
  throw Error(ExitCode::input, fmt::format("{}: {} is \"{}\", which is none of them", file, key, name),
              near.empty() ? fmt::format("one of {}", fmt::join(names, ", ")) : fmt::format("did you mean {}?", near));
}

// "*" -> "{L}"; one at most.
std::string with_layer(const std::string& name, const std::string& file) {
  const auto star = name.find('*');
  if (name.empty() || name.find('*', star + 1) != std::string::npos || name.find_first_of("{}") != std::string::npos)
    fail_input("{}: \"{}\" must be a tensor's name with at most one * for the layer", file, name);
  return star == std::string::npos ? name : name.substr(0, star) + "{L}" + name.substr(star + 1);
}

void read_tensors(const Json& plan, const std::string& file, OwnedFamily& owned) {
  const auto at = plan.find("tensors");
  if (at == plan.end() || !at->is_object() || at->empty() || at->size() > kMostTensors)
    throw Error(ExitCode::input, fmt::format("{}: \"tensors\" must name a role for each kind of tensor", file),
                "for example: tensors: {model.layers.*.self_attn.q_proj: q}");
  static constexpr std::string_view kBiased = " + bias";
  for (const auto& [name, value] : at->items()) {
    if (!value.is_string()) fail_input("{}: the role of {} must be a word, found {}", file, name, value.dump());
    std::string role = value.get<std::string>();
    const bool biased = role.ends_with(kBiased);
    if (biased) role.resize(role.size() - kBiased.size());
    TensorRow row{.name = owned.keep(with_layer(name, file)),
                  .role = one_of(kRoles, role, file, "the role of " + name),
                  .bias = biased ? Need::required : Need::never};
    if (row.role == Role::lm_head) row.weight = Need::unless_tied;
    if (row.role == Role::qkv || row.role == Role::mlp_gate_up) row.fusion = Fusion::concat;
    owned.rows.push_back(row);
  }
}

// Without these there is no forward pass; the others follow from what is there.
void check_rows(const OwnedFamily& owned, const std::string& file) {
  const auto has = [&](Role role) { return std::ranges::find(owned.rows, role, &TensorRow::role) != owned.rows.end(); };
  const BlockSpec& block = owned.family.block;
  const auto need = [&](bool there, std::string_view what) {
    if (!there) fail_input("{}: no tensor has the role {}", file, what);
  };
  for (const auto& [name, role] : {Word<Role>{"token_embedding", Role::token_embedding},
                                   {"attn_norm", Role::attn_norm},
                                   {"final_norm", Role::final_norm},
                                   {"attn_out", Role::attn_out},
                                   {"mlp_down", Role::mlp_down}})
    need(has(role), name);
  need(has(Role::qkv) || (has(Role::q) && has(Role::k) && has(Role::v)), "qkv, or q, k and v");
  need(has(Role::mlp_gate_up) || (has(Role::mlp_up) && (!block.gated || has(Role::mlp_gate))),
       block.gated ? "mlp_gate_up, or mlp_gate and mlp_up" : "mlp_up");
  need(block.parallel || has(Role::mlp_norm), "mlp_norm");
  need(block.tied_by_default || has(Role::lm_head), "lm_head (or set block.tied)");
  need(block.position != Position::learned || has(Role::position_embedding), "position_embedding");
  for (std::size_t i = 0; i < owned.rows.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (owned.rows[i].role == owned.rows[j].role)
        fail_input("{}: {} and {} have the same role", file, owned.rows[j].name, owned.rows[i].name);
}

void read_block(const Json& plan, const std::string& file, OwnedFamily& owned) {
  const auto at = plan.find("block");
  if (at == plan.end() || at->is_null()) return;
  const ConfigReader block(*at, file, "block.");
  for (const auto& item : at->items()) {
    static constexpr std::string_view kKeys[] = {"norm", "position", "gated", "parallel", "tied", "activation"};
    if (std::ranges::find(kKeys, item.key()) == std::end(kKeys))
      fail_input("{}: block.{} is unknown (known are {})", file, item.key(), fmt::join(kKeys, ", "));
  }
  BlockSpec& to = owned.family.block;
  to.norm = one_of(kNorms, block.text_or("norm", "rms"), file, "block.norm");
  to.position = one_of(kPositions, block.text_or("position", "rope_half"), file, "block.position");
  to.gated = block.flag_or("gated", true);
  to.parallel = block.flag_or("parallel", false);
  to.tied_by_default = block.flag_or("tied", false);
  to.activation = owned.keep(block.text_or("activation", "silu"));
}

void read_ignored(const Json& plan, const std::string& file, OwnedFamily& owned) {
  const auto at = plan.find("ignore");
  if (at == plan.end() || at->is_null()) return;
  if (!at->is_array()) fail_input("{}: \"ignore\" must be a list of tensor names, found {}", file, at->dump());
  for (const Json& name : *at) {
    if (!name.is_string()) fail_input("{}: \"ignore\" must be a list of tensor names, found {}", file, name.dump());
    owned.ignored.push_back(owned.keep(with_layer(name.get<std::string>(), file)));
  }
}

}  // namespace

std::shared_ptr<const FamilySpec> family_from_plan(const Json& plan, const std::string& file) {
  if (!plan.is_object()) fail_input("{}: a mapping with \"tensors\" is needed", file);
  for (const auto& item : plan.items())
    if (item.key() != "tensors" && item.key() != "ignore" && item.key() != "block")
      fail_input("{}: {} is unknown (known are tensors, ignore, block)", file, item.key());
  const auto owned = std::make_shared<OwnedFamily>();
  read_block(plan, file, *owned);
  read_tensors(plan, file, *owned);
  read_ignored(plan, file, *owned);
  check_rows(*owned, file);
  owned->family.name = "architecture_plan";
  owned->family.keys.norm_epsilon = "rms_norm_eps|layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps";
  owned->family.keys.activation = "hidden_act|activation_function|hidden_activation";
  owned->family.tensors = owned->rows;
  owned->family.ignore = owned->ignored;
  return {owned, &owned->family};
}

}  // namespace tpinfer
