#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "comm/device_communicator.hpp"
#include "runtime/rank_weights.hpp"
#include "runtime/step.hpp"

namespace tpinfer {

/// Sizes that the forward pass allocates its buffers for; the same on all ranks.
struct TransformerLimits {
  std::int64_t max_rows = 2048;       ///< rows of one step
  std::int64_t max_sequences = 256;   ///< sequences of one step
  std::int64_t max_model_len = 2048;  ///< positions of one sequence
  std::int64_t logit_rows = 64;       ///< rows that go through the head at once
};

/// Rows of logits at once that keep the [rows, vocab] buffer near 64 MiB.
std::int64_t logit_rows_for(std::int64_t vocab, std::int64_t most_rows) noexcept;

/// Device and shared bytes of the forward pass' buffers on one rank; a pure function, used by the plan.
struct WorkspaceBytes {
  std::uint64_t device = 0;  ///< activations, step arrays, rotary tables
  std::uint64_t window = 0;  ///< partial sums of the collectives
  std::uint64_t host = 0;    ///< logits on rank 0
  std::uint64_t total() const noexcept { return device + window + host; }
};
WorkspaceBytes workspace_bytes(const ModelSpec& spec, const RankShare& share, const TransformerLimits& limits,
                               DType activation_dtype);

/// Doubles that the device communicator's partial sums must hold, and floats of the largest block of gathered logits.
std::int64_t most_partials(const ModelSpec& spec, const TransformerLimits& limits) noexcept;
std::int64_t most_gathered(const ModelSpec& spec, const TransformerLimits& limits) noexcept;

/// Receives logits on rank 0: `first` is the index in Step::logit_rows, `logits` [rows, vocab]; valid during the call
/// only.
using LogitSink = std::function<void(std::int64_t first, std::int64_t rows, const float* logits)>;

/// The one forward pass, driven by the knobs of ModelSpec. The only caller of device collectives: embedding, attention
/// out, MLP out, logits.
class Transformer {
 public:
  Transformer(Backend& backend, DeviceCommunicator& comm, const ModelSpec& spec, const RankShare& share,
              const RankWeights& weights, KvStore& kv, const TransformerLimits& limits);

  /// Runs one step on this rank (all ranks of the group run the same one). `sink` is called on rank 0 only.
  void forward(const Step& step, const LogitSink& sink);

  /// Copies the residual stream [rows, hidden] of the last step after `layer` layers; for tests. Set before forward().
  std::function<void(std::int64_t layer, const Tensor& residual)> after_layer;

 private:
  StepBatch upload(const Step& step);
  void embed(const StepBatch& batch);
  void attention_block(std::int64_t layer, const StepBatch& batch);
  void mlp_block(std::int64_t layer, const StepBatch& batch);
  void logits(const Step& step, const StepBatch& batch, const LogitSink& sink);
  NormParams norm_params(const DeviceBuffer& weight, const DeviceBuffer& bias) const;
  Tensor activations(const DeviceBuffer& buffer, DType dtype, std::int64_t rows, std::int64_t cols) const;

  Backend& backend_;
  DeviceCommunicator& comm_;
  const ModelSpec& spec_;
  RankShare share_;
  const RankWeights& weights_;
  KvStore& kv_;
  TransformerLimits limits_;
  AttentionHeads heads_;
  DType act_dtype_;
  std::vector<std::int64_t> vocab_widths_;  ///< vocabulary rows of each rank

  DeviceBuffer residual_, total_;              ///< [max_rows, hidden] float32
  DeviceBuffer normed_;                        ///< [max_rows, hidden] activation type
  DeviceBuffer qkv_;                           ///< [max_rows, qkv_cols] float32
  DeviceBuffer q_, attended_;                  ///< [max_rows, q_heads head_dim] activation type
  DeviceBuffer gate_up_;                       ///< [max_rows, 2 channels] float32
  DeviceBuffer activated_;                     ///< [max_rows, channels] activation type
  DeviceBuffer head_in_, head_normed_;         ///< [logit_rows, hidden]
  DeviceBuffer local_logits_, all_logits_;     ///< [logit_rows, vocabulary of this rank], [logit_rows, vocab] on rank 0
  DeviceBuffer step_arrays_;                   ///< the int32 arrays of a step
  DeviceBuffer cos_, sin_;                     ///< [max_model_len, rotary_dim / 2]
  std::vector<std::int32_t> staging_;          ///< host side of step_arrays_
  std::vector<float> host_logits_;             ///< [logit_rows, vocab] on rank 0
  const std::int32_t* logit_index_ = nullptr;  ///< device copy of Step::logit_rows
};

}  // namespace tpinfer
