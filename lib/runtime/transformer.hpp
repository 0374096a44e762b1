#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/row_choice.hpp"
#include "comm/device_communicator.hpp"
#include "runtime/decode_graphs.hpp"
#include "runtime/rank_weights.hpp"
#include "runtime/step.hpp"
#include "runtime/workspace.hpp"

namespace tpinfer {

/// Receives logits on rank 0, or its share of them on every rank that has one (Step::shared): `first` is the index in
/// Step::logit_rows, `logits` [rows, vocab]; valid during the call only.
using LogitSink = std::function<void(std::int64_t first, std::int64_t rows, const float* logits)>;

/// The one forward pass, driven by the knobs of ModelSpec. The only caller of device collectives: embedding, attention
/// out, MLP out, logits.
class Transformer {
 public:
  Transformer(Backend& backend, DeviceCommunicator& comm, const ModelSpec& spec, const RankShare& share,
              const RankWeights& weights, KvStore& kv, const TransformerLimits& limits);

  /// Runs one step on this rank (all ranks of the group run the same one). One of StepPart::late is the step that was
  /// prepared last.
  void forward(const Step& step, const LogitSink& sink);
  /// Lays out a step of StepPart::early and sends it to the device, in the order of what runs there: while the step
  /// before it still does, after all of that has been enqueued.
  void prepare(const Step& step) { lay_out(step); }
  /// How few rows of that step may be left in it, without being another one for the device.
  std::int64_t fewest_rows(const Step& step) const {
    return graphs_.size_of(step) ? graphs_.fewest_rows(step.rows()) : step.rows();
  }

  /// Asked first, on rank 0, where the device can choose tokens: false when it has not done what the sink is for.
  /// Logits [rows, vocab] from number `first` of Step::logit_rows on.
  std::function<bool(RowChooser& chooser, std::int64_t first, const Tensor& logits)> on_device;

  /// Called on every rank, after its sink, for each block of shared rows: rank r had rows first + [begins[r],
  /// begins[r + 1]).
  std::function<void(std::int64_t first, std::span<const std::int64_t> begins)> after_share;
  /// The collectives, for what belongs to a step besides; shares_rows() says whether a step may be shared.
  DeviceCommunicator& communicator() noexcept { return comm_; }
  std::int64_t vocab() const noexcept { return spec_.vocab; }

  /// Steps that were run from a graph of the device so far.
  std::uint64_t graph_runs() const noexcept { return graphs_.runs(); }

  /// Copies the residual stream [rows, hidden] of the last step after `layer` layers; for tests. Set before forward().
  std::function<void(std::int64_t layer, const Tensor& residual)> after_layer;

 private:
  void lay_out(const Step& step);
  void upload(std::span<const std::int32_t> ints);
  void embed(const StepBatch& batch);
  void attention_block(std::int64_t layer, const StepBatch& batch);
  /// Norms of q and k in qkv_, where the model has them.
  void norm_heads(const LayerWeights& layer, const Tensor& qkv);
  /// The MLP's input from the residual stream as it is now; without a norm of its own it is what attention got.
  void mlp_input(const LayerWeights& layer, std::int64_t rows, bool sparse);
  void mlp_block(std::int64_t layer, const StepBatch& batch);
  /// The sum over the ranks of what attention or the MLP gives, onto the residual stream.
  void add_to_residual(const Tensor& partials, const DeviceBuffer& bias, const NormVectors& post_norm);
  void dense_partials(const LayerWeights& layer, const Tensor& partials);
  void expert_partials(const LayerWeights& layer, const Tensor& partials);
  void layers(const StepBatch& batch);
  /// Logits of `rows` rows from number `first` of Step::logit_rows on, gathered on rank 0 or
  /// shared out.
  void head(const StepBatch& batch, std::int64_t first, std::int64_t rows, bool shared);
  void hand_out(std::int64_t first, std::int64_t rows, const LogitSink& sink);
  void hand_out_share(std::int64_t first, const LogitSink& sink);
  NormParams norm_params(const NormVectors& norm) const;
  Tensor activations(const DeviceBuffer& buffer, DType dtype, std::int64_t rows, std::int64_t cols) const;

  Backend& backend_;
  RowChooser* chooser_;  ///< backend_, when it is one
  DeviceCommunicator& comm_;
  const ModelSpec& spec_;
  RankShare share_;
  const RankWeights& weights_;
  KvStore& kv_;
  TransformerLimits limits_;
  AttentionHeads heads_;
  std::int64_t first_counted_k_;  ///< of this rank's KV heads: one that a rank before it has too is counted there
  DType act_dtype_;
  AdjustParams embedding_scale_;
  DecodeGraphs graphs_;
  std::vector<std::int64_t> vocab_widths_;  ///< vocabulary rows of each rank
  bool on_host_;                            ///< device memory is the host's
  std::vector<std::int64_t> begins_;        ///< [ranks + 1] shares of the rows of a block

  DeviceBuffer residual_, total_;                          ///< [max_rows, hidden] float32
  DeviceBuffer normed_;                                    ///< [max_rows, hidden] activation type
  DeviceBuffer qkv_;                                       ///< [max_rows, qkv_cols] float32
  DeviceBuffer q_, attended_;                              ///< [max_rows, q_heads head_dim] activation type
  DeviceBuffer gate_up_;                                   ///< [max_rows, 2 channels] float32
  DeviceBuffer activated_;                                 ///< [max_rows, channels] activation type
  DeviceBuffer router_in_;                                 ///< [max_rows, hidden] float32
  DeviceBuffer router_logits_;                             ///< [max_rows, experts (+ 1)]
  DeviceBuffer chosen_, chosen_weights_;                   ///< [max_rows, slots] int32, float32
  DeviceBuffer expert_in_, expert_up_, expert_activated_;  ///< [max_rows * slots, ...] see ExpertScratch
  std::vector<ExpertMatrices> expert_list_;                ///< of the layer at work
  DeviceBuffer head_in_, head_normed_;                     ///< [logit_rows, hidden]
  DeviceBuffer local_logits_,
      all_logits_;                  ///< [logit_rows, vocabulary of this rank], [logit_rows, vocab] on rank 0; shares
  DeviceBuffer step_arrays_;        ///< the int32 arrays of a step
  DeviceBuffer cos_, sin_;          ///< [max_model_len, rotary_dim / 2]
  DeviceBuffer squares_;            ///< [max_rows, 2] float32
  DeviceBuffer slopes_;             ///< [q_heads] float32
  StepInputs inputs_;               ///< host side of step_arrays_
  std::optional<StepSize> size_;    ///< of a step that is run from a graph
  std::vector<float> host_logits_;  ///< [logit_rows, vocab] on rank 0, of a GPU
  const std::int32_t* logit_index_ = nullptr;  ///< device copy of Step::logit_rows
};

}  // namespace tpinfer
