#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "backend/backend.hpp"
#include "comm/device_communicator.hpp"
#include "runtime/step_inputs.hpp"
#include "runtime/workspace.hpp"

namespace tpinfer {

/// Steps of one row for each sequence, run from graphs of the device: they are filled up to a few sizes, and what the
/// host would enqueue for each of the hundreds of operations of a size is recorded once. Nothing where the backend or
/// the collectives have no graphs.
class DecodeGraphs {
 public:
  DecodeGraphs(Backend& backend, DeviceCommunicator& comm, const TransformerLimits& limits, std::int64_t block_size)
      : backend_(backend), comm_(comm), limits_(limits), block_size_(block_size) {}

  /// The size in which the step is run from a graph; nothing when it is not.
  std::optional<StepSize> size_of(const Step& step) const;
  /// A bound of the context in steps of this size.
  std::int64_t most_context(StepSize size) const noexcept { return size.table_width * block_size_; }
  /// Fewest rows that are filled up to the same size as so many.
  std::int64_t fewest_rows(std::int64_t rows) const noexcept;
  /// Runs what `enqueue` enqueues for a step of that size: the first time of a size as it is, so that the memory it
  /// needs is there, then from a graph.
  void run(StepSize size, const std::function<void()>& enqueue);

  /// Steps that were run from a graph.
  std::uint64_t runs() const noexcept { return runs_; }

  /// Rows that a step of `rows` is filled up to: every size up to 2, then 4, then multiples of 8, of 16 from 64, of 64
  /// from 256.
  static std::int64_t padded_rows(std::int64_t rows) noexcept;

 private:
  std::int64_t most_rows() const noexcept {
    return std::min({limits_.max_rows, limits_.max_sequences, limits_.logit_rows});
  }

  Backend& backend_;
  DeviceCommunicator& comm_;
  TransformerLimits limits_;
  std::int64_t block_size_;
  std::uint64_t runs_ = 0;
  std::set<std::uint64_t> seen_;                             ///< sizes that have run
  std::map<std::uint64_t, CommunicationStats> collectives_;  ///< in the graph of each size
};

}  // namespace tpinfer
