#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/tensor_role.hpp"

namespace tpinfer {

/// When a tensor must be in the checkpoint.
enum class Need : std::uint8_t {
  required,
  never,
  unless_tied,          ///< required unless tie_word_embeddings; beside a tied embedding it is ignored
  with_attention_bias,  ///< required when the config's attention_bias is true, else absent
  with_mlp_bias,        ///< required when the config's mlp_bias is true, else absent
};

/// In which layers, or for which kind of attention, a row holds.
enum class When : std::uint8_t { always, dense_layer, sparse_layer, multi_query, multi_head };

/// How the writer of the checkpoint laid the experts out: a tensor each, or all experts of a layer in one. A row of one
/// layout is not looked for in a checkpoint of the other.
enum class Layout : std::uint8_t { any, each_expert, all_experts };

/// One row of a family's table: "{L}" in the name is the layer, "{E}" the expert. The checkpoint's tensors are
/// NAME.weight and, as `bias` says, NAME.bias; a stacked tensor is NAME itself.
struct TensorRow {
  std::string_view name;
  Role role;
  Need weight = Need::required;
  Need bias = Need::never;
  Fusion fusion = Fusion::none;
  When when = When::always;
  Layout layout = Layout::any;
};

/// Where a family's config.json keeps its sizes; the defaults are Hugging Face's canonical names.
struct ConfigKeys {
  std::string_view hidden = "hidden_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view ffn = "intermediate_size";
  std::string_view max_positions = "max_position_embeddings";
  std::string_view norm_epsilon = "rms_norm_eps";
  std::string_view activation = "hidden_act";
  std::string_view window = "sliding_window";
  std::string_view experts = "num_experts";
  std::string_view experts_per_token = "num_experts_per_tok";
  std::string_view expert_ffn = "moe_intermediate_size";
  std::string_view shared_ffn = "shared_expert_intermediate_size";
};

enum class Norm : std::uint8_t { rms, layer };
enum class Position : std::uint8_t { rope_half, learned };
/// when_set: the config's window key, unless null; when_used: only with use_sliding_window, from layer
/// max_window_layers on.
enum class Window : std::uint8_t { none, when_set, when_used };
enum class KvHeads : std::uint8_t {
  from_key,
  multi_query_flag
};  ///< the flag: one KV head when multi_query is true (the default), else all
enum class Moe : std::uint8_t {
  none,
  renormalised,
  norm_topk_prob
};  ///< softmax over all experts, top k, weights scaled to 1: always, or as the key says

/// The knobs of one transformer block; a field with its default need not be named in a table.
struct BlockSpec {
  Norm norm = Norm::rms;
  bool gated = true;  ///< MLP: down(act(gate(x)) * up(x)), else down(act(up(x)))
  Position position = Position::rope_half;
  Window window = Window::none;
  bool tied_by_default = false;  ///< when the config does not say tie_word_embeddings
  KvHeads kv_heads = KvHeads::from_key;
  Moe moe = Moe::none;
  std::string_view activation = "silu";  ///< when the config names none
  std::int64_t ffn_factor = 0;           ///< the MLP's width in hidden sizes when the config has none; 0: it must
};

/// A family of checkpoints: which tensors it has and how its block differs. Holds neither sizes nor axes nor code.
struct FamilySpec {
  std::string_view name;
  std::span<const std::string_view> architectures;  ///< as config.json's "architectures" has them
  ConfigKeys keys;
  BlockSpec block;
  std::span<const TensorRow> tensors;
  std::span<const std::string_view> ignore;  ///< buffers that some checkpoints carry, "{L}" as above
  std::string_view prefix = {};              ///< of all names; some writers leave it out
};

}  // namespace tpinfer
