#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "runtime/step.hpp"

namespace tpinfer {

/// What a step is filled up to: rows and sequences beyond its own, and columns of its block table.
struct StepSize {
  std::int64_t rows = 0;
  std::int64_t table_width = 0;
};

/// The int32 arrays of a step in one piece, as they go to the device. Tokens and slots come first: they are all that
/// changes when a step was laid out before its tokens were known.
class StepInputs {
 public:
  /// Room for steps of up to so many numbers.
  explicit StepInputs(std::int64_t most_ints) { ints_.reserve(static_cast<std::size_t>(most_ints)); }

  /// Lays out a step in its own size.
  void fill(const Step& step) { fill(step, {step.rows(), step.table_width}); }
  /// ... with padding: rows that have slot -1, sequences without rows.
  void fill(const Step& step, StepSize size);
  /// Puts tokens to the rows of the last fill(), in the same order; -1: the row is left out, as padding is.
  void put_tokens(std::span<const std::int32_t> tokens);

  std::span<const std::int32_t> all() const noexcept { return ints_; }
  /// The beginning of all(), which put_tokens() writes to.
  std::span<const std::int32_t> changed_by_tokens() const noexcept { return all().first(2 * rows_); }
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(rows_); }
  std::int64_t logit_rows() const noexcept { return logit_rows_; }

  /// `device`: where all() lies there.
  StepBatch batch(const std::int32_t* device) const noexcept;
  const std::int32_t* logit_index(const std::int32_t* device) const noexcept { return device + logits_at_; }

 private:
  void append(std::span<const std::int32_t> list, std::size_t size, std::int32_t filler);

  std::vector<std::int32_t> ints_;  ///< tokens, slots, positions [rows]; row begins; block table; logit rows
  std::size_t rows_ = 0, sequences_ = 0, width_ = 0, logits_at_ = 0;
  std::size_t real_rows_ = 0;
  std::int64_t logit_rows_ = 0;  ///< without padding
  std::int64_t most_rows_ = 0, most_context_ = 0;
};

}  // namespace tpinfer
