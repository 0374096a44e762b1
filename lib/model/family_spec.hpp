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
  with_attention_bias,  ///< required when the flag ConfigKeys::attention_bias is true, else absent
  with_mlp_bias,        ///< required when the flag ConfigKeys::mlp_bias is true, else absent
  with_qk_norm,         ///< required when the flag use_qk_norm is true, else absent
};

/// In which layers, for which kind of attention or shape of the residual stream a row holds.
enum class When : std::uint8_t {
  always,
  dense_layer,
  sparse_layer,
  multi_query,
  multi_head,
  sequential,  ///< attention, then the MLP (ModelSpec::parallel is false)
  one_norm,    ///< ModelSpec::norms_in_parallel is 1
  two_norms,   ///< ModelSpec::norms_in_parallel is 2
};

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
  Storage storage = Storage::out_in;
  When when = When::always;
  Layout layout = Layout::any;
};

/// Where a family's config.json keeps its settings; the defaults are Hugging Face's canonical names. "a|b": the first
/// of these that is there; "a.b": b in the object a. Without a name ("") the setting is not read and has no effect.
struct ConfigKeys {
  std::string_view hidden = "hidden_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";
  std::string_view ffn = "intermediate_size";
  std::string_view ffn_factor = "";  ///< the MLP's width in hidden sizes
  std::string_view max_positions = "max_position_embeddings";
  std::string_view norm_epsilon = "rms_norm_eps";
  std::string_view activation = "hidden_act";
  std::string_view window = "sliding_window";
  std::string_view experts = "num_experts";
  std::string_view experts_per_token = "num_experts_per_tok";
  std::string_view expert_ffn = "moe_intermediate_size";
  std::string_view shared_ffn = "shared_expert_intermediate_size";
  std::string_view attention_bias = "attention_bias";
  std::string_view mlp_bias = "mlp_bias";
  std::string_view rope_theta = "rope_theta";
  std::string_view rotary_share = "partial_rotary_factor";  ///< of a head's channels that are rotated
  std::string_view rotary_dim = "";                         ///< the same as a count
  std::string_view parallel = "";                           ///< flag: attention and MLP read the same residual stream
  std::string_view qkv_clip = "";                           ///< q, k and v are limited to +- this
  std::string_view embedding_scale = "";
  std::string_view residual_scale = "";   ///< of what attention and MLP add
  std::string_view attention_scale = "";  ///< of q . k
  std::string_view query_scalar = "";     ///< q . k is divided by its root
  std::string_view logit_scale = "";
  std::string_view logit_divisor = "";
  std::string_view attention_soft_cap = "";  ///< scores x become cap tanh(x / cap)
  std::string_view logit_soft_cap = "";
};

/// rms_plus_one: scaled by 1 + weight.
enum class Norm : std::uint8_t { rms, rms_plus_one, layer };
/// Rotary pairs: channels i and i + rotary_dim / 2, or 2 i and 2 i + 1.
enum class Position : std::uint8_t { rope_half, rope_adjacent, learned, alibi };
/// when_set: the config's window key, unless null; when_used: only with use_sliding_window, from layer
/// max_window_layers on; alternate: as when_set, but only every other layer from the first on; attention_types: the
/// local layers of [[["global", "local"], repeats], ...]. A list layer_types ("sliding_attention" or "full_attention")
/// goes before any of these.
enum class Window : std::uint8_t { none, when_set, when_used, alternate, attention_types };
/// multi_query_flag: one KV head when multi_query is true (the default), else all; grouped_flag: the key's count when
/// new_decoder_architecture is true (or n_head_kv is there), else as multi_query_flag.
enum class KvHeads : std::uint8_t { from_key, multi_query_flag, grouped_flag };
/// Softmax over all experts, top k, weights scaled to 1: always, or as the key norm_topk_prob says.
enum class Moe : std::uint8_t { none, renormalised, norm_topk_prob };

/// The knobs of one transformer block; a field with its default need not be named in a table. What a table's rows say
/// is not said again here: norms of q and k, norms after attention and MLP, one norm for both.
struct BlockSpec {
  Norm norm = Norm::rms;
  bool gated = true;  ///< MLP: down(act(gate(x)) * up(x)), else down(act(up(x)))
  Position position = Position::rope_half;
  std::int64_t position_offset = 0;  ///< learned: row of position 0
  double rotary_share = 1;           ///< when the config does not say
  Window window = Window::none;
  bool scaled_scores = true;       ///< q . k is divided by the root of head_dim
  bool tied_by_default = false;    ///< when the config does not say tie_word_embeddings
  bool biased_by_default = false;  ///< the same for the flags attention_bias and mlp_bias
  bool parallel = false;           ///< attention and MLP read the same residual stream, unless the key says otherwise
  bool scaled_embedding = false;   ///< embeddings times the root of the hidden size
  KvHeads kv_heads = KvHeads::from_key;
  Moe moe = Moe::none;
  std::string_view activation = "silu";  ///< when the config names none
  std::int64_t ffn_factor = 0;           ///< the MLP's width in hidden sizes when the config has none; 0: it must
  double norm_epsilon = 1e-6;            ///< when the config has none
};

/// A flag of the config that must have this value (which is also its default): the other one is not supported.
struct FixedFlag {
  std::string_view key;
  bool value;
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
  std::span<const FixedFlag> fixed = {};
};

}  // namespace tpinfer
