#pragma once

#include <span>
#include <vector>

#include "backend/row_choice.hpp"
#include "runtime/row_work.hpp"

namespace tpinfer {

/// The tasks of some rows done where their logits are, so that only tokens come back from the device; the outcomes are
/// those of do_row() but for the last bits of log probabilities.
class DeviceRows {
 public:
  /// Takes note of what is wanted of the rows; false when that is more than a device does.
  bool prepare(std::span<const RowTask> tasks, std::int64_t vocab);
  /// Has the device do it. `logits` [tasks, vocab] in device memory are changed.
  void start(RowChooser& chooser, const Tensor& logits) { chooser.choose_rows(logits, wishes_, edits_, known_); }
  /// Waits for it. Into `outcomes`, reusing its memory.
  void finish(RowChooser& chooser, std::span<RowOutcome> outcomes);

 private:
  std::span<const std::uint8_t> known_;
  std::vector<RowWish> wishes_;
  std::vector<LogitEdit> edits_;
  std::vector<std::uint32_t> memory_;
  std::vector<RowChoice> choices_;
  std::vector<RankedId> alternatives_;
};

}  // namespace tpinfer
