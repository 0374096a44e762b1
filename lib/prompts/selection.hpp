#pragma once

#include <cstdint>
#include <string>

#include "job/job.hpp"

namespace tpinfer {

/// One of `count` parts of the prompts, which are dealt out in turn.
struct Shard {
  std::int64_t index = 0;  ///< from 0
  std::int64_t count = 1;
  bool operator==(const Shard&) const = default;
};

/// "3/16" is the third of 16; slurm_array takes this task's place in its job array from SLURM_ARRAY_TASK_ID, _COUNT,
/// _MIN, _MAX and _STEP. Error(usage) for what is no part.
Shard parse_shard(const std::string& text);

/// Which prompts of a job are taken: offset and limit first, of these the shard.
class Selection {
 public:
  explicit Selection(const SelectJob& job);
  /// Whether the next prompt is taken.
  bool take();
  /// No further prompt will be.
  bool is_over() const noexcept { return seen_ >= end_; }
  std::int64_t seen() const noexcept { return seen_; }

 private:
  std::int64_t begin_;
  std::int64_t end_;
  Shard shard_;
  std::int64_t seen_ = 0;
};

}  // namespace tpinfer
