#include "runtime/transformer.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace tpinfer {
namespace {

constexpr std::int64_t kLogitBytes = 64 << 20;

Activation backend_activation(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::silu:
      return Activation::silu;
    case ActivationKind::gelu:
      return Activation::gelu;
    case ActivationKind::gelu_tanh:
      return Activation::gelu_tanh;
    case ActivationKind::relu:
      return Activation::relu;
  }
  return Activation::silu;
}

// Element counts of every buffer, in one place for allocation and prediction.
struct BufferSizes {
  std::int64_t hidden, qkv, q, up, channels, head_hidden, local_logits, all_logits, step_ints, rope;

  BufferSizes(const ModelSpec& spec, const RankShare& share, const TransformerLimits& limits) {
    const std::int64_t rows = limits.max_rows;
    const AttentionHeads heads{share.query_heads.count(), share.kv_heads.count(), spec.head_dim};
    hidden = rows * spec.hidden;
    qkv = rows * heads.qkv_cols();
    q = rows * heads.q_heads * heads.head_dim;
    channels = rows * share.channels.count();
    up = channels * (spec.family->block.gated ? 2 : 1);
    head_hidden = limits.logit_rows * spec.hidden;
    local_logits = limits.logit_rows * share.vocab.count();
    all_logits = share.rank == 0 ? limits.logit_rows * spec.vocab : 0;
    // tokens, positions, slots, logit rows, row begins, block tables of the smallest block
    const std::int64_t table = (limits.max_model_len + 15) / 16;
    step_ints = 4 * rows + limits.max_sequences + 1 + limits.max_sequences * table;
    rope = limits.max_model_len * spec.rope.rotary_dim / 2;
  }
};

std::uint64_t of_type(std::int64_t count, DType dtype) { return static_cast<std::uint64_t>(count) * dtype_size(dtype); }

}  // namespace

std::int64_t logit_rows_for(std::int64_t vocab, std::int64_t most_rows) noexcept {
  return std::clamp<std::int64_t>(std::min<std::int64_t>(kLogitBytes / (vocab * 4), most_rows),
                                  std::min<std::int64_t>(16, most_rows), 256);
}

std::int64_t most_partials(const ModelSpec& spec, const TransformerLimits& limits) noexcept {
  return limits.max_rows * spec.hidden;
}

std::int64_t most_gathered(const ModelSpec& spec, const TransformerLimits& limits) noexcept {
  return limits.logit_rows * spec.vocab;
}

WorkspaceBytes workspace_bytes(const ModelSpec& spec, const RankShare& share, const TransformerLimits& limits,
                               DType act) {
  const BufferSizes n(spec, share, limits);
  WorkspaceBytes bytes;
  bytes.device = 4 * static_cast<std::uint64_t>(2 * n.hidden + n.qkv + n.up + n.head_hidden + n.local_logits +
                                                n.all_logits + n.step_ints + 2 * n.rope) +
                 of_type(n.hidden + 2 * n.q + n.channels + n.head_hidden, act);
  // two float64 buffers of partial sums, and this rank's part of the float32 results and gathered logits
  bytes.window = static_cast<std::uint64_t>(2 * n.hidden) * sizeof(double) +
                 static_cast<std::uint64_t>(n.hidden + n.local_logits) * sizeof(float);
  bytes.host = static_cast<std::uint64_t>(n.all_logits) * sizeof(float) +
               static_cast<std::uint64_t>(n.step_ints) * sizeof(std::int32_t);
  return bytes;
}

Transformer::Transformer(Backend& backend, DeviceCommunicator& comm, const ModelSpec& spec, const RankShare& share,
                         const RankWeights& weights, KvStore& kv, const TransformerLimits& limits)
    : backend_(backend),
      comm_(comm),
      spec_(spec),
      share_(share),
      weights_(weights),
      kv_(kv),
      limits_(limits),
      heads_{share.query_heads.count(), share.kv_heads.count(), spec.head_dim},
      act_dtype_(backend.activation_dtype(kv.spec().dtype)) {
  const std::vector<std::int64_t> cuts = even_cuts(spec.vocab, share.ranks);
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) vocab_widths_.push_back(cuts[r + 1] - cuts[r]);
  const BufferSizes n(spec, share, limits);
  const auto make = [&](std::int64_t count, DType dtype) { return DeviceBuffer(backend, of_type(count, dtype)); };
  residual_ = make(n.hidden, DType::float32);
  total_ = make(n.hidden, DType::float32);
  normed_ = make(n.hidden, act_dtype_);
  qkv_ = make(n.qkv, DType::float32);
  q_ = make(n.q, act_dtype_);
  attended_ = make(n.q, act_dtype_);
  gate_up_ = make(n.up, DType::float32);
  activated_ = make(n.channels, act_dtype_);
  head_in_ = make(n.head_hidden, DType::float32);
  head_normed_ = make(n.head_hidden, act_dtype_);
  local_logits_ = make(n.local_logits, DType::float32);
  all_logits_ = make(n.all_logits, DType::float32);
  step_arrays_ = make(n.step_ints, DType::int32);
  host_logits_.resize(static_cast<std::size_t>(n.all_logits));
  if (spec.rope.rotary_dim == 0) return;
  const RopeAngles angles = rope_angles(spec.rope, limits.max_model_len);
  cos_ = make(n.rope, DType::float32);
  sin_ = make(n.rope, DType::float32);
  backend.copy_to_device(cos_.data(), angles.cos.data(), cos_.bytes());
  backend.copy_to_device(sin_.data(), angles.sin.data(), sin_.bytes());
  backend.synchronize();
}

Tensor Transformer::activations(const DeviceBuffer& buffer, DType dtype, std::int64_t rows, std::int64_t cols) const {
  return {buffer.data(), dtype, rows, cols};
}

NormParams Transformer::norm_params(const DeviceBuffer& weight, const DeviceBuffer& bias) const {
  return {.kind = spec_.family->block.norm == Norm::rms ? NormKind::rms : NormKind::layer,
          .weight = weight.as<float>(),
          .bias = bias.as<float>(),
          .epsilon = static_cast<float>(spec_.norm_epsilon)};
}

StepBatch Transformer::upload(const Step& step) {
  staging_.clear();
  std::vector<std::size_t> begins;
  for (const auto* list :
       {&step.tokens, &step.positions, &step.slots, &step.row_begin, &step.block_table, &step.logit_rows}) {
    begins.push_back(staging_.size());
    staging_.insert(staging_.end(), list->begin(), list->end());
  }
  const std::size_t bytes = staging_.size() * sizeof(std::int32_t);
  if (bytes > step_arrays_.bytes() || step.rows() > limits_.max_rows)
    throw Error(ExitCode::internal,
                fmt::format("a step of {} rows is larger than the buffers made for {}", step.rows(), limits_.max_rows));
  backend_.copy_to_device(step_arrays_.data(), staging_.data(), bytes);
  const auto* base = step_arrays_.as<std::int32_t>();
  StepBatch batch{.rows = step.rows(),
                  .tokens = base + begins[0],
                  .positions = base + begins[1],
                  .slots = base + begins[2],
                  .sequences = step.sequences(),
                  .row_begin = base + begins[3],
                  .block_table = base + begins[4],
                  .table_width = step.table_width};
  logit_index_ = base + begins[5];
  for (std::size_t s = 0; s + 1 < step.row_begin.size(); ++s) {
    batch.max_rows = std::max<std::int64_t>(batch.max_rows, step.row_begin[s + 1] - step.row_begin[s]);
    batch.max_context = std::max<std::int64_t>(batch.max_context,
                                               step.positions[static_cast<std::size_t>(step.row_begin[s + 1]) - 1] + 1);
  }
  return batch;
}

void Transformer::embed(const StepBatch& batch) {
  backend_.embed(weights_.embedding(), share_.vocab.begin, batch, comm_.partials());
  comm_.reduce(batch.rows * spec_.hidden, residual_.as<float>());
}

void Transformer::attention_block(std::int64_t index, const StepBatch& batch) {
  const LayerWeights& layer = weights_.layer(index);
  const Tensor residual = activations(residual_, DType::float32, batch.rows, spec_.hidden);
  const Tensor normed = activations(normed_, act_dtype_, batch.rows, spec_.hidden);
  const Tensor qkv = activations(qkv_, DType::float32, batch.rows, heads_.qkv_cols());
  const Tensor q = activations(q_, act_dtype_, batch.rows, heads_.q_heads * heads_.head_dim);
  const Tensor attended = activations(attended_, act_dtype_, batch.rows, heads_.q_heads * heads_.head_dim);
  backend_.norm(residual, norm_params(layer.attn_norm, layer.attn_norm_bias), normed);
  backend_.matmul(*layer.qkv, normed, layer.qkv_bias.as<float>(), qkv);
  backend_.rotate_and_store(qkv, heads_, {cos_.as<float>(), sin_.as<float>(), spec_.rope.rotary_dim}, batch, kv_, index,
                            q);
  const AttentionParams params{.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.head_dim))),
                               .window = spec_.window};
  backend_.attention(q, heads_, params, batch, kv_, index, attended);
  backend_.matmul_partial(*layer.attn_out, attended, comm_.partials());
  comm_.reduce(batch.rows * spec_.hidden, total_.as<float>());
  backend_.add_residual(residual, total_.as<float>(), layer.attn_out_bias.as<float>());
}

void Transformer::mlp_block(std::int64_t index, const StepBatch& batch) {
  const LayerWeights& layer = weights_.layer(index);
  const bool gated = spec_.family->block.gated;
  const std::int64_t channels = share_.channels.count();
  const Tensor residual = activations(residual_, DType::float32, batch.rows, spec_.hidden);
  const Tensor normed = activations(normed_, act_dtype_, batch.rows, spec_.hidden);
  const Tensor up = activations(gate_up_, DType::float32, batch.rows, gated ? 2 * channels : channels);
  const Tensor activated = activations(activated_, act_dtype_, batch.rows, channels);
  backend_.norm(residual, norm_params(layer.mlp_norm, layer.mlp_norm_bias), normed);
  backend_.matmul(*layer.gate_up, normed, layer.gate_up_bias.as<float>(), up);
  backend_.activate(up, backend_activation(spec_.activation), gated, activated);
  backend_.matmul_partial(*layer.down, activated, comm_.partials());
  comm_.reduce(batch.rows * spec_.hidden, total_.as<float>());
  backend_.add_residual(residual, total_.as<float>(), layer.down_bias.as<float>());
}

void Transformer::logits(const Step& step, const StepBatch& batch, const LogitSink& sink) {
  const Tensor residual = activations(residual_, DType::float32, batch.rows, spec_.hidden);
  const auto wanted = static_cast<std::int64_t>(step.logit_rows.size());
  for (std::int64_t first = 0; first < wanted; first += limits_.logit_rows) {
    const std::int64_t rows = std::min(limits_.logit_rows, wanted - first);
    const Tensor picked = activations(head_in_, DType::float32, rows, spec_.hidden);
    const Tensor normed = activations(head_normed_, act_dtype_, rows, spec_.hidden);
    backend_.gather_rows(residual, logit_index_ + first, picked);
    backend_.norm(picked, norm_params(weights_.final_norm(), weights_.final_norm_bias()), normed);
    backend_.matmul(weights_.head(), normed, nullptr,
                    activations(local_logits_, DType::float32, rows, share_.vocab.count()));
    comm_.gather_columns(local_logits_.as<float>(), rows, vocab_widths_, all_logits_.as<float>());
    if (share_.rank != 0) continue;
    backend_.copy_to_host(host_logits_.data(), all_logits_.data(),
                          static_cast<std::size_t>(rows * spec_.vocab) * sizeof(float));
    backend_.synchronize();
    sink(first, rows, host_logits_.data());
  }
}

void Transformer::forward(const Step& step, const LogitSink& sink) {
  const StepBatch batch = upload(step);
  embed(batch);
  if (after_layer) after_layer(-1, activations(residual_, DType::float32, batch.rows, spec_.hidden));
  for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
    attention_block(layer, batch);
    mlp_block(layer, batch);
    if (after_layer) after_layer(layer, activations(residual_, DType::float32, batch.rows, spec_.hidden));
  }
  logits(step, batch, sink);
}

}  // namespace tpinfer
