#include "runtime/workspace.hpp"

#include <algorithm>

namespace tpinfer {
namespace {

constexpr std::int64_t kLogitBytes = 64 << 20;
constexpr std::int64_t kSmallestBlock = 16;  // positions of a cache block: the longest block tables

}  // namespace

std::int64_t logit_rows_for(std::int64_t vocab, std::int64_t most_rows) noexcept {
  return std::clamp<std::int64_t>(std::min<std::int64_t>(kLogitBytes / (vocab * 4), most_rows),
                                  std::min<std::int64_t>(16, most_rows), 256);
}

std::int64_t expert_slots(const ModelSpec& spec) noexcept {
  return spec.experts_per_token + (spec.shared_ffn > 0 ? 1 : 0);
}

std::int64_t most_partials(const ModelSpec& spec, const TransformerLimits& limits) noexcept {
  return limits.max_rows * spec.hidden;
}

std::int64_t most_gathered(const ModelSpec& spec, const TransformerLimits& limits, int ranks) {
  const std::vector<std::int64_t> cuts = even_cuts(spec.vocab, ranks);
  std::int64_t widest = 0;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) widest = std::max(widest, cuts[r + 1] - cuts[r]);
  return limits.logit_rows * widest;
}

WorkspaceSizes::WorkspaceSizes(const ModelSpec& spec, const RankShare& share, const TransformerLimits& limits) {
  const std::int64_t rows = limits.max_rows;
  const std::int64_t gate_up = spec.family->block.gated ? 2 : 1;
  hidden = rows * spec.hidden;
  q = rows * share.query_heads.count() * spec.head_dim;
  qkv = q + rows * 2 * share.kv_heads.count() * spec.head_dim;
  if (spec.has_layers(false)) {
    channels = rows * share.channels.count();
    up = channels * gate_up;
  }
  if (spec.has_layers(true)) {
    const std::int64_t slots = rows * expert_slots(spec);
    router_in = hidden;
    router_logits = rows * (spec.experts + 1);
    choices = slots;
    expert_in = slots * spec.hidden;
    expert_channels = slots * std::max(share.expert_channels.count(), share.shared_channels.count());
    expert_up = expert_channels * gate_up;
  }
  head_hidden = limits.logit_rows * spec.hidden;
  local_logits = limits.logit_rows * share.vocab.count();
  all_logits = share.rank == 0 ? limits.logit_rows * spec.vocab : 0;
  if (share.ranks > 1) shared_logits = (limits.logit_rows + share.ranks - 1) / share.ranks * spec.vocab;
  // tokens, positions, slots, logit rows, row begins, block tables
  const std::int64_t table = (limits.max_model_len + kSmallestBlock - 1) / kSmallestBlock;
  step_ints = 4 * rows + limits.max_sequences + 1 + limits.max_sequences * table;
  rope = limits.max_model_len * spec.rope.rotary_dim / 2;
  if (spec.has(Role::q_whole_norm)) squares = 2 * rows;
  if (!spec.alibi_slopes.empty()) slopes = share.query_heads.count();
}

std::int64_t WorkspaceSizes::words() const noexcept {
  return 2 * hidden + qkv + up + router_in + router_logits + 2 * choices + expert_up + head_hidden + local_logits +
         all_logits + step_ints + squares + slopes + 2 * rope;
}

std::int64_t WorkspaceSizes::inputs() const noexcept {
  return hidden + 2 * q + channels + expert_in + expert_channels + head_hidden;
}

std::uint64_t WorkspaceSizes::gpu_bytes(DType activation) const noexcept {
  return static_cast<std::uint64_t>(words()) * sizeof(float) +
         static_cast<std::uint64_t>(inputs()) * dtype_size(activation);
}

std::uint64_t WorkspaceSizes::bytes(DType activation) const noexcept {
  // partial sums in float64, this rank's part of their float32 totals and of the gathered logits, this rank's share
  // of whole rows where it has no room for all, and the host's copy of steps
  const std::int64_t collectives = 2 * hidden + hidden + local_logits;
  const std::int64_t host = std::max<std::int64_t>(0, shared_logits - all_logits) + step_ints;
  return gpu_bytes(activation) + static_cast<std::uint64_t>(collectives + host) * sizeof(float);
}

}  // namespace tpinfer
