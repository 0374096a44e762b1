#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"

namespace tpinfer {

/// What a row's parameters and tokens so far do to the logit of one id, in this order; each id once in a row. A change
/// that gives NaN bans the id.
struct LogitEdit {
  std::int32_t id = 0;
  float bias = 0.0F;       ///< added
  float factor = 1.0F;     ///< positive logits are divided by it, others multiplied
  float frequency = 0.0F;  ///< subtracted
  float presence = 0.0F;   ///< subtracted
  std::int32_t banned = 0;
};

/// What is wanted of one row of logits: the log probability of a given id, or a new token; see the runtime's sampler
/// for what the numbers mean.
struct RowWish {
  std::int32_t given = -1;  ///< id to score; -1: a new token, if `choose`
  std::int32_t choose = 0;
  std::int32_t greedy = 0;      ///< the highest logit; otherwise drawn
  std::int32_t known_only = 0;  ///< ids that no token has are banned
  std::int32_t first_edit = 0;  ///< of this row in the list of edits
  std::int32_t edits = 0;
  std::int32_t top_k = 0;         ///< 0: all
  std::int32_t alternatives = 0;  ///< best ids of the raw logits to tell besides
  double temperature = 1.0;
  double top_p = 1.0;
  double min_p = 0.0;
  double draw = 0.0;  ///< in [0, 1)
};

/// Most alternatives that are found on a device: one pass over the row for each.
inline constexpr std::int32_t kMostDeviceAlternatives = 20;

struct RowChoice {
  std::int32_t finite = 1;  ///< 0: NaN or +infinity among the logits, or nothing above -infinity
  std::int32_t token = -1;  ///< -1: nothing was wanted, or no token may follow
  float logprob = 0.0F;     ///< of it under the raw logits
  std::int32_t padding = 0;
};

struct RankedId {
  std::int32_t id = -1;
  float logprob = 0.0F;
};

/// A device that finds tokens where the logits are.
class RowChooser {
 public:
  virtual ~RowChooser() = default;
  /// For each row of logits (float32 [wishes.size(), vocab], device memory, changed) what is wanted of it. `edits` are
  /// those of all rows; `known` [vocab] 0: no token has this id, empty: all have one; the same in every call.
  /// Enqueued, as all operations are; what is given may be changed after the call.
  virtual void choose_rows(const Tensor& logits, std::span<const RowWish> wishes, std::span<const LogitEdit> edits,
                           std::span<const std::uint8_t> known) = 0;
  /// Waits for what choose_rows() enqueued last, not for what came after it: the rows' choices, and alternatives [rows,
  /// the most that a row wanted].
  virtual void take_choices(std::vector<RowChoice>& choices, std::vector<RankedId>& alternatives) = 0;
};

}  // namespace tpinfer
