#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "model/model_spec.hpp"
#include "shard/role_rules.hpp"

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

/// Element counts of every buffer of the forward pass on one rank: what the Transformer allocates and the plan
/// predicts.
struct WorkspaceSizes {
  std::int64_t hidden = 0;           ///< [max_rows, hidden]: residual and totals float32, normed
  std::int64_t qkv = 0;              ///< [max_rows, qkv columns] float32
  std::int64_t q = 0;                ///< [max_rows, q columns]: Q and the attention's result
  std::int64_t up = 0;               ///< [max_rows, gate and up columns of a dense MLP] float32
  std::int64_t channels = 0;         ///< [max_rows, channels of a dense MLP]
  std::int64_t router_in = 0;        ///< [max_rows, hidden] float32, of a mixture
  std::int64_t router_logits = 0;    ///< [max_rows, experts (+ 1)] float32
  std::int64_t choices = 0;          ///< [max_rows, slots] int32 and float32
  std::int64_t expert_in = 0;        ///< [max_rows * slots, hidden]
  std::int64_t expert_up = 0;        ///< [max_rows * slots, widest gate and up] float32
  std::int64_t expert_channels = 0;  ///< [max_rows * slots, widest channels]
  std::int64_t head_hidden = 0;      ///< [logit_rows, hidden]: picked rows float32, normed
  std::int64_t local_logits = 0;     ///< [logit_rows, vocabulary of this rank] float32
  std::int64_t all_logits = 0;       ///< [logit_rows, vocab] float32, on rank 0
  std::int64_t shared_logits = 0;    ///< rows of a block that a rank samples, [.., vocab] float32; where the host does
  std::int64_t step_ints = 0;        ///< int32 arrays of a step
  std::int64_t squares = 0;          ///< [max_rows, 2] float32, of a norm over all heads
  std::int64_t slopes = 0;           ///< [query heads] float32, of ALiBi
  std::int64_t rope = 0;             ///< [max_model_len, rotary_dim / 2]: cos and sin

  WorkspaceSizes(const ModelSpec& spec, const RankShare& share, const TransformerLimits& limits);
  /// Bytes of device buffers, partial sums and host staging together; `activation` is the type of product inputs.
  std::uint64_t bytes(DType activation) const noexcept;
  /// Bytes of the buffers alone, in the memory of a GPU.
  std::uint64_t gpu_bytes(DType activation) const noexcept;

 private:
  std::int64_t words() const noexcept;   ///< elements of 4 bytes
  std::int64_t inputs() const noexcept;  ///< elements of the activation type
};

/// Experts that a row's tokens go to: the routed ones and the shared one.
std::int64_t expert_slots(const ModelSpec& spec) noexcept;

/// Doubles that the device communicator's partial sums must hold, and floats of the largest block of gathered logits.
std::int64_t most_partials(const ModelSpec& spec, const TransformerLimits& limits) noexcept;
std::int64_t most_gathered(const ModelSpec& spec, const TransformerLimits& limits, int ranks);

}  // namespace tpinfer
