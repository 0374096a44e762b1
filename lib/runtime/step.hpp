#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/row_choice.hpp"

namespace tpinfer {

/// A step may come in two parts: all but its tokens while the step before it runs, and those when they are known.
enum class StepPart : std::uint8_t {
  whole,
  early,  ///< tokens are 0; it may also never be run
  late,   ///< of the early part that came last: `tokens` alone, -1 for rows that are left out of it
};

/// One step of all ranks: made by rank 0 and broadcast, so that the others only follow. Field meanings as in StepBatch
/// (backend.hpp).
struct Step {
  StepPart part = StepPart::whole;
  bool stop = false;                                   ///< no rows: the run is over
  std::vector<std::int32_t> tokens, positions, slots;  ///< [rows]
  std::vector<std::int32_t> row_begin;                 ///< [sequences + 1]
  std::vector<std::int32_t> block_table;               ///< [sequences, table_width], -1 beyond a sequence's blocks
  std::int32_t table_width = 0;
  std::vector<std::int32_t> block_copies;  ///< pairs of cache blocks (from, to), copied before the rows are computed
  std::vector<std::int32_t> logit_rows;    ///< rows whose logits are wanted, ascending

  /// What is wanted of each logit row, where the ranks divide the rows among each other; empty: rank 0 samples all.
  std::vector<RowWish> wishes;
  std::vector<LogitEdit> edits;  ///< of all wishes

  bool shared() const noexcept { return !wishes.empty(); }
  std::int64_t rows() const noexcept { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t sequences() const noexcept { return static_cast<std::int64_t>(row_begin.size()) - 1; }
  void clear();
};

/// Into `bytes`, reusing its memory.
void encode(const Step& step, std::vector<std::byte>& bytes);
void decode_step(std::span<const std::byte> bytes, Step& step);

}  // namespace tpinfer
