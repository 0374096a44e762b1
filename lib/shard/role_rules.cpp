#include "shard/role_rules.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tpinfer {
namespace {

enum class Rule : std::uint8_t {
  whole,
  vocab_rows,
  query_rows,
  kv_rows,
  query_head_rows,
  kv_head_rows,
  query_columns,
  channel_rows,
  channel_columns,
  qkv_rows,
  channel_pair_rows
};

Rule weight_rule(Role role) noexcept {
  switch (role) {
    case Role::token_embedding:
    case Role::lm_head: return Rule::vocab_rows;
    case Role::position_embedding:
    case Role::embedding_norm:
    case Role::attn_norm:
    case Role::mlp_norm:
    case Role::attn_post_norm:
    case Role::mlp_post_norm:
    case Role::q_norm:
    case Role::k_norm:
    case Role::final_norm: return Rule::whole;
    case Role::q_whole_norm:
    case Role::q: return Rule::query_rows;
    case Role::k_whole_norm:
    case Role::k:
    case Role::v: return Rule::kv_rows;
    case Role::q_heads_norm: return Rule::query_head_rows;
    case Role::k_heads_norm: return Rule::kv_head_rows;
    case Role::qkv: return Rule::qkv_rows;
    case Role::attn_out: return Rule::query_columns;
    case Role::mlp_gate:
    case Role::mlp_up: return Rule::channel_rows;
    case Role::mlp_gate_up: return Rule::channel_pair_rows;
    case Role::mlp_down: return Rule::channel_columns;
    case Role::router:
    case Role::shared_expert_gate: return Rule::whole;
    case Role::expert_gate:
    case Role::expert_up:
    case Role::shared_gate:
    case Role::shared_up: return Rule::channel_rows;
    case Role::expert_gate_up: return Rule::channel_pair_rows;
    case Role::expert_down:
    case Role::shared_down: return Rule::channel_columns;
  }
  return Rule::whole;
}

// A bias follows the rows of its weight; where the weight is cut by columns it is whole, because it is added after the
// sum over ranks.
Rule rule_of(Role role, bool bias) noexcept {
  const Rule rule = weight_rule(role);
  return bias && (rule == Rule::query_columns || rule == Rule::channel_columns) ? Rule::whole : rule;
}

bool cuts_columns(Rule rule) noexcept { return rule == Rule::query_columns || rule == Rule::channel_columns; }

Range scaled(Range heads, std::int64_t width, std::int64_t offset = 0) {
  return {offset + heads.begin * width, offset + heads.end * width};
}

// The channels of the MLP, expert or shared expert that this role is part of.
Range channels_of(Role role, const RankShare& share) {
  switch (role) {
    case Role::expert_gate:
    case Role::expert_up:
    case Role::expert_gate_up:
    case Role::expert_down: return share.expert_channels;
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down: return share.shared_channels;
    default: return share.channels;
  }
}

// Rows of Q, K and V in a fused tensor, in the order of the local matrix: all of Q, all of K, all of V.
std::vector<Range> fused_qkv_ranges(const ModelSpec& spec, Fusion fusion, const RankShare& share) {
  const std::int64_t width = spec.head_dim;
  if (fusion != Fusion::per_group)
    return {scaled(share.query_heads, width), scaled(share.kv_heads, width, spec.q_heads * width),
            scaled(share.kv_heads, width, (spec.q_heads + spec.kv_heads) * width)};
  // group g, of `group` query heads: heads (group + 2) g .. are its q, then its k, then its v
  const std::int64_t group = spec.group();
  const auto stored = [&](std::int64_t g, Range heads) { return scaled(heads, width, (group + 2) * g * width); };
  std::vector<Range> ranges;
  for (std::int64_t g = share.kv_heads.begin; g < share.kv_heads.end; ++g)
    ranges.push_back(stored(g, {std::max(share.query_heads.begin - g * group, std::int64_t{0}),
                                std::min(share.query_heads.end - g * group, group)}));
  for (const std::int64_t part : {group, group + 1})
    for (std::int64_t g = share.kv_heads.begin; g < share.kv_heads.end; ++g)
      ranges.push_back(stored(g, {part, part + 1}));
  return ranges;
}

std::vector<Range> stored_ranges(Rule rule, const ModelSpec& spec, const ExpectedTensor& tensor, std::int64_t length,
                                 const RankShare& share) {
  const std::int64_t width = spec.head_dim;
  const Range channels = channels_of(tensor.role, share);
  switch (rule) {
    case Rule::whole: return {{0, length}};
    case Rule::vocab_rows: return {share.vocab};
    case Rule::query_rows:
    case Rule::query_columns: return {scaled(share.query_heads, width)};
    case Rule::kv_rows: return {scaled(share.kv_heads, width)};
    case Rule::query_head_rows: return {share.query_heads};
    case Rule::kv_head_rows: return {share.kv_heads};
    case Rule::channel_rows:
    case Rule::channel_columns: return {channels};
    case Rule::qkv_rows: return fused_qkv_ranges(spec, tensor.fusion, share);
    case Rule::channel_pair_rows: return {channels, {channels.begin + length / 2, channels.end + length / 2}};
  }
  return {};
}

}  // namespace

std::string_view split_name(Split split) noexcept {
  switch (split) {
    case Split::replicated: return "replicated";
    case Split::rows: return "rows";
    case Split::columns: return "columns";
    case Split::fused_rows: return "fused_rows";
  }
  return "";
}

Split role_split(Role role, bool bias, Fusion) noexcept {
  switch (rule_of(role, bias)) {
    case Rule::whole: return Split::replicated;
    case Rule::query_columns:
    case Rule::channel_columns: return Split::columns;
    case Rule::qkv_rows:
    case Rule::channel_pair_rows: return Split::fused_rows;
    default: return Split::rows;
  }
}

std::string_view split_words(Role role, bool bias, Fusion fusion) noexcept {
  const bool expert =
      role == Role::expert_gate || role == Role::expert_up || role == Role::expert_gate_up || role == Role::expert_down;
  switch (rule_of(role, bias)) {
    case Rule::whole: return "whole on every rank";
    case Rule::vocab_rows: return "vocabulary rows";
    case Rule::query_head_rows:
    case Rule::query_rows: return "query heads";
    case Rule::kv_head_rows:
    case Rule::kv_rows: return "the KV heads that the rank's query heads read";
    case Rule::query_columns: return "columns of the query heads";
    case Rule::channel_rows:
    case Rule::channel_pair_rows: return expert ? "channels inside every expert" : "channels";
    case Rule::channel_columns:
      return expert ? "columns of the channels inside every expert" : "columns of the channels";
    case Rule::qkv_rows:
      return fusion == Fusion::per_group ? "query heads, each group with its K and V"
                                         : "query heads of Q, of K and V the KV heads that they read";
  }
  return "";
}

bool may_overlap(Role role, bool bias) noexcept {
  const Rule rule = rule_of(role, bias);
  return rule == Rule::whole || rule == Rule::kv_rows || rule == Rule::kv_head_rows || rule == Rule::qkv_rows;
}

RankShare rank_share(const ModelSpec& spec, int rank, int ranks) {
  const auto part = [rank](const std::vector<std::int64_t>& cuts) {
    return Range{cuts[static_cast<std::size_t>(rank)], cuts[static_cast<std::size_t>(rank) + 1]};
  };
  RankShare share{
      .rank = rank, .ranks = ranks, .query_heads = part(query_head_cuts(spec.q_heads, spec.kv_heads, ranks))};
  // the KV heads that these query heads read: whole groups, or one head that several ranks share
  share.kv_heads = {share.query_heads.begin / spec.group(), (share.query_heads.end - 1) / spec.group() + 1};
  share.channels = part(channel_cuts(spec.ffn, ranks));
  share.expert_channels = part(channel_cuts(spec.expert_ffn, ranks));
  share.shared_channels = part(channel_cuts(spec.shared_ffn, ranks));
  share.vocab = part(even_cuts(spec.vocab, ranks));
  return share;
}

int stored_axis(const RoleSlice& slice, Fusion fusion) noexcept {
  return slice.axis + (fusion == Fusion::stacked ? 1 : 0);
}

RoleSlice role_slice(const ModelSpec& spec, const ExpectedTensor& tensor, const RankShare& share) {
  const Rule rule = rule_of(tensor.role, tensor.bias);
  RoleSlice slice{.axis = cuts_columns(rule) != (tensor.storage == Storage::in_out) ? 1 : 0, .pieces = {}};
  const std::int64_t length = tensor.shape[static_cast<std::size_t>(stored_axis(slice, tensor.fusion))];
  std::int64_t to = 0;
  for (const Range& range : stored_ranges(rule, spec, tensor, length, share)) {
    if (range.count() == 0) continue;
    slice.pieces.push_back({range.begin, to, range.count()});
    to += range.count();
  }
  return slice;
}

}  // namespace tpinfer
