#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/device_communicator.hpp"
#include "core/parallel_for.hpp"
#include "runtime/row_work.hpp"
#include "runtime/step.hpp"

namespace tpinfer {

/// Sampling divided over the ranks: each does the wishes for its share of a step's rows, rank 0 gets all outcomes. What
/// comes out does not depend on who did it.
class SharedSampling {
 public:
  /// `known`: SampleContext::allowed_ids; must stay.
  SharedSampling(DeviceCommunicator& comm, ParallelFor& parallel, std::int64_t vocab,
                 std::span<const std::uint8_t> known)
      : comm_(comm), parallel_(parallel), vocab_(vocab), known_(known) {}

  /// Whether sampling this many rows of logits may be divided: their number is at least `least`, and ranks may share.
  bool may_share(std::int64_t rows, std::int64_t least) const;
  /// Fills the wishes and edits of a step that may be shared. False, and none of them, where its wishes are longer than
  /// what they save, so that rank 0 alone samples it better.
  bool prepare(std::span<const RowTask> tasks, Step& step);

  /// Does wishes [first, first + rows) of the step; logits [rows, vocab].
  void do_rows(const Step& step, std::int64_t first, std::int64_t rows, const float* logits);
  /// Collective: the outcomes of a block of rows come to rank 0, into outcomes[first, ...). Shares as in
  /// Transformer::after_share.
  void collect(const Step& step, std::int64_t first, std::span<const std::int64_t> begins,
               std::span<RowOutcome> outcomes);

 private:
  DeviceCommunicator& comm_;
  ParallelFor& parallel_;
  std::int64_t vocab_;
  std::span<const std::uint8_t> known_;
  std::vector<RowOutcome> outcomes_;      ///< of the rows that were done last
  std::vector<SamplingScratch> scratch_;  ///< [threads]
  std::vector<std::uint32_t> memory_;
  std::vector<float> own_, all_;  ///< outcomes as they cross ranks
  std::vector<std::int64_t> widths_;
};

/// Calls body(row, thread) for [0, rows), rows divided over the threads.
template <class Body>
void each_row(ParallelFor& parallel, std::int64_t rows, const Body& body) {
  const std::int64_t threads = std::min<std::int64_t>(parallel.threads(), rows);
  parallel.run(threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread)
      for (std::int64_t row = thread; row < rows; row += threads) body(row, static_cast<std::size_t>(thread));
  });
}

}  // namespace tpinfer
