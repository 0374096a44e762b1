#pragma once

#include <cstdint>
#include <vector>

#include "runtime/step.hpp"

namespace tpinfer {

/// One row of a step whose logits come back: position `position` of sequence `sequence`.
struct LogitRow {
  std::int64_t sequence = 0;  ///< Sequence::index; -1: a row that is left out
  std::int64_t position = 0;
};

/// What the next step will be when every sequence goes on: all but its tokens, made before these are known.
struct Foresight {
  Step step;                   ///< StepPart::early, one row for each sequence
  std::vector<LogitRow> rows;  ///< of the step
  std::int64_t fewest = 0;     ///< rows that must be left in it; others may be left out
  bool ready = false;          ///< there is such a step

  void clear();
  /// Where `made` (complete but for its block table) is this step, without some of its rows at most, it and its rows
  /// become the late part. Otherwise false, and nothing has changed.
  bool complete(Step& made, std::vector<LogitRow>& made_rows);

 private:
  std::vector<std::int32_t> tokens_;
};

}  // namespace tpinfer
