#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/log.hpp"
#include "prompts/prompt_stream.hpp"
#include "runtime/prompt_collector.hpp"
#include "runtime/prompt_encoder.hpp"

namespace tpinfer {

/// Where a part of the prompts ends: behind so many, or so many bytes of records, whichever comes first.
struct PartLimit {
  std::int64_t prompts = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
};

/// The prompts of a job on their way from the files to token ids, in parts or one at a time.
class PromptReading {
 public:
  /// `job` must stay. `stopped` (may be empty) is asked by the thread that reads. Error(input, usage) for a file that
  /// is not there, a template named by the job that cannot be used, a wrong shard.
  PromptReading(const Job& job, StopReading stopped);
  PromptReading(const PromptReading&) = delete;
  PromptReading& operator=(const PromptReading&) = delete;

  /// Whether another thread may go on reading while this one writes a result: HDF5 is for one thread.
  bool may_go_on_alone() const { return !stream_.has_hdf5(); }
  /// Reads a part and encodes it, with as many threads as the job gives: adds to `rows`, which must have what was read
  /// before, and to `requests` what of it can run. -> whether more follow. Error(input): files that cannot be read, ids
  /// that occur twice; Error(stopped_early) when stopped.
  bool read(const EncodingTerms& terms, const PartLimit& limit, std::vector<PromptRow>& rows,
            std::vector<Request>& requests);
  /// The next prompt, encoded by the calling thread; nothing at the end. Error(input); ReadingStopped.
  std::optional<PlacedPrompt> next(const PromptEncoder& encoder);
  /// Lets the thread that reads end with ReadingStopped soon.
  void end() noexcept { ending_ = true; }
  /// After the last: Error(input) where there was none, or a conversation's template is broken. Tells `log` of prompts
  /// that were cut and the like.
  void finish(const Log& log) const;

  PromptCollector& collector() noexcept { return collector_; }

 private:
  bool take_one(RawPrompt& raw);

  const Job& job_;
  StopReading stopped_;
  std::atomic<bool> ending_ = false;
  ChatPrompts chat_;
  PromptStream stream_;
  PromptCollector collector_;
  std::optional<RawPrompt> ahead_;  ///< read already, to see whether there are more
};

}  // namespace tpinfer
