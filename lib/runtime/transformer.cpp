#include "runtime/transformer.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace tpinfer {
namespace {

Activation backend_activation(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::silu: return Activation::silu;
    case ActivationKind::gelu: return Activation::gelu;
    case ActivationKind::gelu_tanh: return Activation::gelu_tanh;
    case ActivationKind::relu: return Activation::relu;
  }
  return Activation::silu;
}

NormKind norm_kind(const ModelSpec& spec) {
  return spec.family->block.norm == Norm::layer ? NormKind::layer : NormKind::rms;
}

// The root of the hidden size is a tensor of the compute type in Hugging Face's code, and so rounded to it.
float embedding_scale(const ModelSpec& spec, DType compute) {
  const auto scale = static_cast<float>(spec.embedding_scale);
  if (!spec.family->block.scaled_embedding) return scale;
  if (compute == DType::bfloat16) return bfloat16_to_float(float_to_bfloat16(scale));
  return compute == DType::float16 ? float16_to_float(float_to_float16(scale)) : scale;
}

std::uint64_t of_type(std::int64_t count, DType dtype) { return static_cast<std::uint64_t>(count) * dtype_size(dtype); }

}  // namespace

Transformer::Transformer(Backend& backend, DeviceCommunicator& comm, const ModelSpec& spec, const RankShare& share,
                         const RankWeights& weights, KvStore& kv, const TransformerLimits& limits)
    : backend_(backend),
      chooser_(dynamic_cast<RowChooser*>(&backend)),
      comm_(comm),
      spec_(spec),
      share_(share),
      weights_(weights),
      kv_(kv),
      limits_(limits),
      heads_{share.query_heads.count(), share.kv_heads.count(), spec.head_dim},
      first_counted_k_(share.kv_heads.begin * spec.group() < share.query_heads.begin ? 1 : 0),
      act_dtype_(backend.activation_dtype(kv.spec().dtype)),
      embedding_scale_{.scale = embedding_scale(spec, kv.spec().dtype)},
      graphs_(backend, comm, limits, kv.spec().block_size),
      on_host_(comm.shares_rows()),
      begins_(static_cast<std::size_t>(share.ranks) + 1),
      inputs_(WorkspaceSizes(spec, share, limits).step_ints) {
  const std::vector<std::int64_t> cuts = even_cuts(spec.vocab, share.ranks);
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) vocab_widths_.push_back(cuts[r + 1] - cuts[r]);
  const WorkspaceSizes n(spec, share, limits);
  const auto make = [&](std::int64_t count, DType dtype) { return DeviceBuffer(backend, of_type(count, dtype)); };
  residual_ = make(n.hidden, DType::float32);
  total_ = make(n.hidden, DType::float32);
  normed_ = make(n.hidden, act_dtype_);
  qkv_ = make(n.qkv, DType::float32);
  q_ = make(n.q, act_dtype_);
  attended_ = make(n.q, act_dtype_);
  gate_up_ = make(n.up, DType::float32);
  activated_ = make(n.channels, act_dtype_);
  router_in_ = make(n.router_in, DType::float32);
  router_logits_ = make(n.router_logits, DType::float32);
  chosen_ = make(n.choices, DType::int32);
  chosen_weights_ = make(n.choices, DType::float32);
  expert_in_ = make(n.expert_in, act_dtype_);
  expert_up_ = make(n.expert_up, DType::float32);
  expert_activated_ = make(n.expert_channels, act_dtype_);
  head_in_ = make(n.head_hidden, DType::float32);
  head_normed_ = make(n.head_hidden, act_dtype_);
  local_logits_ = make(n.local_logits, DType::float32);
  all_logits_ = make(on_host_ ? std::max(n.all_logits, n.shared_logits) : n.all_logits, DType::float32);
  step_arrays_ = make(n.step_ints, DType::int32);
  if (!on_host_) host_logits_.resize(static_cast<std::size_t>(n.all_logits));
  squares_ = make(n.squares, DType::float32);
  slopes_ = make(n.slopes, DType::float32);
  if (n.slopes > 0)
    backend.copy_to_device(slopes_.data(), spec.alibi_slopes.data() + share.query_heads.begin, slopes_.bytes());
  if (spec.rope.rotary_dim > 0) {
    const RopeAngles angles = rope_angles(spec.rope, limits.max_model_len);
    cos_ = make(n.rope, DType::float32);
    sin_ = make(n.rope, DType::float32);
    backend.copy_to_device(cos_.data(), angles.cos.data(), cos_.bytes());
    backend.copy_to_device(sin_.data(), angles.sin.data(), sin_.bytes());
  }
  backend.synchronize();
}

Tensor Transformer::activations(const DeviceBuffer& buffer, DType dtype, std::int64_t rows, std::int64_t cols) const {
  return {buffer.data(), dtype, rows, cols};
}

NormParams Transformer::norm_params(const NormVectors& norm) const {
  return {.kind = norm_kind(spec_),
          .weight = norm.weight.as<float>(),
          .bias = norm.bias.as<float>(),
          .epsilon = static_cast<float>(spec_.norm_epsilon)};
}

void Transformer::upload(std::span<const std::int32_t> ints) {
  if (ints.size_bytes() > step_arrays_.bytes() || inputs_.rows() > limits_.max_rows)
    throw Error(ExitCode::internal, fmt::format("a step of {} rows is larger than the buffers made for {}",
                                                inputs_.rows(), limits_.max_rows));
  backend_.copy_to_device(step_arrays_.data(), ints.data(), ints.size_bytes());
}

void Transformer::lay_out(const Step& step) {
  size_ = after_layer ? std::nullopt : graphs_.size_of(step);
  inputs_.fill(step, size_.value_or(StepSize{step.rows(), step.table_width}));
  upload(inputs_.all());
}

void Transformer::embed(const StepBatch& batch) {
  const Tensor residual = activations(residual_, DType::float32, batch.rows, spec_.hidden);
  const Tensor partials = comm_.partials(residual);
  backend_.embed(weights_.embedding(), share_.vocab.begin, batch, partials);
  comm_.reduce(partials, residual);
  if (embedding_scale_.changes()) backend_.adjust(residual, embedding_scale_);
  if (const PackedMatrix* table = weights_.positions())
    backend_.add_rows(*table, spec_.family->block.position_offset, batch.positions, residual);
  if (weights_.embedding_norm().weight.data())
    backend_.norm(residual, norm_params(weights_.embedding_norm()), residual);
}

void Transformer::norm_heads(const LayerWeights& layer, const Tensor& qkv) {
  if (!layer.q_norm.data()) return;
  const auto q_bytes = static_cast<std::size_t>(heads_.q_heads * heads_.head_dim) * sizeof(float);
  HeadNormParams params{.kind = norm_kind(spec_),
                        .q_weight = layer.q_norm.as<float>(),
                        .k_weight = layer.k_norm.as<float>(),
                        .each_head = layer.q_norm.bytes() == q_bytes,
                        .epsilon = static_cast<float>(spec_.norm_epsilon)};
  if (squares_.data()) {
    const Tensor squares = activations(squares_, DType::float32, qkv.rows, 2);
    const Tensor partials = comm_.partials(squares);
    backend_.head_squares(qkv, heads_, first_counted_k_, partials);
    comm_.reduce(partials, squares);
    params.squares = squares.floats();
    params.q_cols = spec_.q_heads * spec_.head_dim;
    params.k_cols = spec_.kv_heads * spec_.head_dim;
  }
  backend_.norm_heads(qkv, heads_, params);
}

void Transformer::add_to_residual(const Tensor& partials, const DeviceBuffer& bias, const NormVectors& post_norm) {
  const Tensor residual = activations(residual_, DType::float32, partials.rows, spec_.hidden);
  const Tensor total = activations(total_, DType::float32, partials.rows, spec_.hidden);
  const auto scale = static_cast<float>(spec_.residual_scale);
  comm_.reduce(partials, total);
  if (!post_norm.weight.data()) return backend_.add_residual(residual, total.floats(), bias.as<float>(), scale);
  if (bias.data()) backend_.add_residual(total, nullptr, bias.as<float>(), 1.0F);
  backend_.norm(total, norm_params(post_norm), total);
  backend_.add_residual(residual, total.floats(), nullptr, scale);
}

void Transformer::attention_block(std::int64_t index, const StepBatch& batch) {
  const LayerWeights& layer = weights_.layer(index);
  const Tensor residual = activations(residual_, DType::float32, batch.rows, spec_.hidden);
  const Tensor normed = activations(normed_, act_dtype_, batch.rows, spec_.hidden);
  const Tensor qkv = activations(qkv_, DType::float32, batch.rows, heads_.qkv_cols());
  const Tensor q = activations(q_, act_dtype_, batch.rows, heads_.q_heads * heads_.head_dim);
  const Tensor attended = activations(attended_, act_dtype_, batch.rows, heads_.q_heads * heads_.head_dim);
  backend_.norm(residual, norm_params(layer.attn_norm), normed);
  backend_.matmul(*layer.qkv, normed, layer.qkv_bias.as<float>(), qkv);
  if (spec_.parallel) mlp_input(layer, batch.rows, spec_.is_sparse(index));
  norm_heads(layer, qkv);
  if (spec_.qkv_clip > 0) backend_.adjust(qkv, {.clip = static_cast<float>(spec_.qkv_clip)});
  const RopeTable rope{cos_.as<float>(), sin_.as<float>(), spec_.rope.rotary_dim,
                       spec_.position == Position::rope_adjacent};
  backend_.rotate_and_store(qkv, heads_, rope, batch, kv_, index, q);
  const AttentionParams params{.scale = static_cast<float>(spec_.attention_scale),
                               .window = spec_.windows[static_cast<std::size_t>(index)],
                               .soft_cap = static_cast<float>(spec_.attention_soft_cap),
                               .slopes = slopes_.as<float>()};
  backend_.attention(q, heads_, params, batch, kv_, index, attended);
  const Tensor partials = comm_.partials(activations(total_, DType::float32, batch.rows, spec_.hidden));
  backend_.matmul_partial(*layer.attn_out, attended, partials);
  add_to_residual(partials, layer.attn_out_bias, layer.attn_post_norm);
}

void Transformer::dense_partials(const LayerWeights& layer, const Tensor& partials) {
  const bool gated = spec_.family->block.gated;
  const std::int64_t rows = partials.rows;
  const std::int64_t channels = share_.channels.count();
  const Tensor up = activations(gate_up_, DType::float32, rows, gated ? 2 * channels : channels);
  const Tensor activated = activations(activated_, act_dtype_, rows, channels);
  backend_.matmul(*layer.mlp.gate_up, activations(normed_, act_dtype_, rows, spec_.hidden),
                  layer.gate_up_bias.as<float>(), up);
  backend_.activate(up, backend_activation(spec_.activation), gated, activated);
  backend_.matmul_partial(*layer.mlp.down, activated, partials);
}

// The routed experts and the shared one give one partial sum, so that the layer needs one reduction.
void Transformer::expert_partials(const LayerWeights& layer, const Tensor& partials) {
  const bool shared = spec_.shared_ffn > 0;
  const std::int64_t rows = partials.rows;
  const std::int64_t slots = expert_slots(spec_);
  const Tensor router_in = activations(router_in_, DType::float32, rows, spec_.hidden);
  const Tensor router_logits = activations(router_logits_, DType::float32, rows, spec_.experts + (shared ? 1 : 0));
  const Routing routing{.experts = chosen_.as<std::int32_t>(), .weights = chosen_weights_.as<float>(), .slots = slots};
  backend_.matmul(*layer.router, router_in, nullptr, router_logits);
  backend_.route(router_logits,
                 {.experts = spec_.experts,
                  .per_token = spec_.experts_per_token,
                  .renormalise = spec_.renormalise_experts,
                  .shared = shared},
                 routing);
  expert_list_.clear();
  for (const MlpWeights& expert : layer.experts) expert_list_.push_back({expert.gate_up.get(), expert.down.get()});
  const std::int64_t channels = std::max(share_.expert_channels.count(), share_.shared_channels.count());
  const bool gated = spec_.family->block.gated;
  const ExpertScratch scratch{
      .inputs = activations(expert_in_, act_dtype_, rows * slots, spec_.hidden),
      .up = activations(expert_up_, DType::float32, rows * slots, gated ? 2 * channels : channels),
      .activated = activations(expert_activated_, act_dtype_, rows * slots, channels)};
  backend_.experts(expert_list_, activations(normed_, act_dtype_, rows, spec_.hidden), routing,
                   backend_activation(spec_.activation), gated, scratch, partials);
}

void Transformer::mlp_input(const LayerWeights& layer, std::int64_t rows, bool sparse) {
  const NormVectors& own = layer.mlp_norm.weight.data() ? layer.mlp_norm : layer.attn_norm;
  const Tensor residual = activations(residual_, DType::float32, rows, spec_.hidden);
  if (&own == &layer.mlp_norm)
    backend_.norm(residual, norm_params(own), activations(normed_, act_dtype_, rows, spec_.hidden));
  if (sparse) backend_.norm(residual, norm_params(own), activations(router_in_, DType::float32, rows, spec_.hidden));
}

void Transformer::mlp_block(std::int64_t index, const StepBatch& batch) {
  const LayerWeights& layer = weights_.layer(index);
  const bool sparse = spec_.is_sparse(index);
  if (!spec_.parallel) mlp_input(layer, batch.rows, sparse);
  const Tensor partials = comm_.partials(activations(total_, DType::float32, batch.rows, spec_.hidden));
  if (sparse)
    expert_partials(layer, partials);
  else
    dense_partials(layer, partials);
  add_to_residual(partials, layer.down_bias, layer.mlp_post_norm);
}

void Transformer::layers(const StepBatch& batch) {
  embed(batch);
  if (after_layer) after_layer(-1, activations(residual_, DType::float32, batch.rows, spec_.hidden));
  for (std::int64_t layer = 0; layer < spec_.layers; ++layer) {
    attention_block(layer, batch);
    mlp_block(layer, batch);
    if (after_layer) after_layer(layer, activations(residual_, DType::float32, batch.rows, spec_.hidden));
  }
}

void Transformer::head(const StepBatch& batch, std::int64_t first, std::int64_t rows, bool shared) {
  const Tensor residual = activations(residual_, DType::float32, batch.rows, spec_.hidden);
  const Tensor picked = activations(head_in_, DType::float32, rows, spec_.hidden);
  const Tensor normed = activations(head_normed_, act_dtype_, rows, spec_.hidden);
  backend_.gather_rows(residual, logit_index_ + first, picked);
  const Tensor logits = activations(local_logits_, DType::float32, rows, share_.vocab.count());
  backend_.norm(picked, norm_params(weights_.final_norm()), normed);
  backend_.matmul(weights_.head(), normed, weights_.head_bias().as<float>(), logits);
  const AdjustParams adjust{.scale = static_cast<float>(spec_.logit_scale),
                            .soft_cap = static_cast<float>(spec_.logit_soft_cap)};
  if (adjust.changes()) backend_.adjust(logits, adjust);
  if (!shared) return comm_.gather_columns(local_logits_.as<float>(), rows, vocab_widths_, all_logits_.as<float>());
  for (std::size_t r = 0; r < begins_.size(); ++r)
    begins_[r] = rows * static_cast<std::int64_t>(r) / static_cast<std::int64_t>(share_.ranks);
  comm_.share_rows(local_logits_.as<float>(), begins_, vocab_widths_, all_logits_.as<float>());
}

void Transformer::hand_out(std::int64_t first, std::int64_t rows, const LogitSink& sink) {
  if (share_.rank != 0) return;
  if (chooser_ && on_device && on_device(*chooser_, first, activations(all_logits_, DType::float32, rows, spec_.vocab)))
    return comm_.throw_if_failed();
  if (on_host_) {
    comm_.throw_if_failed();
    return sink(first, rows, all_logits_.as<float>());
  }
  backend_.copy_to_host(host_logits_.data(), all_logits_.data(),
                        static_cast<std::size_t>(rows * spec_.vocab) * sizeof(float));
  backend_.synchronize();
  comm_.throw_if_failed();
  sink(first, rows, host_logits_.data());
}

void Transformer::hand_out_share(std::int64_t first, const LogitSink& sink) {
  comm_.throw_if_failed();
  const auto me = static_cast<std::size_t>(share_.rank);
  const std::int64_t rows = begins_[me + 1] - begins_[me];
  if (rows > 0) sink(first + begins_[me], rows, all_logits_.as<float>());
  if (after_share) after_share(first, begins_);
}

void Transformer::forward(const Step& step, const LogitSink& sink) {
  if (!step.block_copies.empty()) backend_.copy_kv_blocks(kv_, step.block_copies);
  if (step.part == StepPart::late) {
    inputs_.put_tokens(step.tokens);
    upload(inputs_.changed_by_tokens());
  } else {
    lay_out(step);
  }
  const auto* arrays = step_arrays_.as<std::int32_t>();
  StepBatch batch = inputs_.batch(arrays);
  logit_index_ = inputs_.logit_index(arrays);
  const std::int64_t wanted = inputs_.logit_rows();
  if (size_) {
    batch.max_context = graphs_.most_context(*size_);
    graphs_.run(*size_, [&] {
      layers(batch);
      head(batch, 0, batch.rows, false);
    });
    return hand_out(0, wanted, sink);
  }
  layers(batch);
  for (std::int64_t first = 0; first < wanted; first += limits_.logit_rows) {
    const std::int64_t rows = std::min(limits_.logit_rows, wanted - first);
    head(batch, first, rows, step.shared());
    if (step.shared())
      hand_out_share(first, sink);
    else
      hand_out(first, rows, sink);
  }
}

}  // namespace tpinfer
