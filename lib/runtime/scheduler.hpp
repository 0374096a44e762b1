#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/kv_blocks.hpp"
#include "runtime/step.hpp"

namespace tpinfer {

/// What the scheduler knows of one sequence.
struct Sequence {
  std::int64_t index = 0;            ///< of the engine's list
  std::vector<std::int32_t> tokens;  ///< prompt, then what was generated
  std::int64_t prompt_tokens = 0;
  std::int64_t most_tokens = 0;  ///< prompt and new tokens at the end at the latest: its blocks are taken for that many
  std::int64_t first_logit =
      0;  ///< first position whose logits are wanted: 0 for prompt log probabilities, else the last of the prompt
  std::int64_t computed = 0;         ///< tokens whose K and V are in the cache
  std::vector<std::int32_t> blocks;  ///< cache blocks in order of position
};

struct SchedulerLimits {
  std::int64_t max_sequences = 256;
  std::int64_t max_rows = 2048;
  std::int64_t block_size = 16;
  std::int64_t blocks = 0;
};

/// One row of a step whose logits come back: position `position` of sequence `sequence`.
struct LogitRow {
  std::int64_t sequence = 0;  ///< Sequence::index
  std::int64_t position = 0;
};

/// Continuous batching on rank 0: sequences join and leave at every step, prompts are computed in chunks beside
/// decodes. A sequence is admitted only when the cache has blocks for all of its tokens, so that none is ever evicted.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  /// Tokens that fit in the cache at once.
  std::int64_t capacity_tokens() const noexcept { return blocks_.total() * limits_.block_size; }
  /// `sequence.most_tokens` must be at most capacity_tokens().
  void add(Sequence sequence);
  /// Fills the next step and its logit rows (same order as Step::logit_rows); false when no sequence is left.
  bool next(Step& step, std::vector<LogitRow>& rows);
  /// Appends a token that was chosen from the last position's logits.
  void append(std::int64_t sequence, std::int32_t token);
  /// Takes the sequence out and frees its blocks.
  void finish(std::int64_t sequence);

  std::int64_t waiting() const noexcept { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t running() const noexcept { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t blocks_used() const noexcept { return blocks_.used(); }

 private:
  void admit();
  void add_rows(Sequence& sequence, std::int64_t count, Step& step, std::vector<LogitRow>& rows) const;
  std::vector<Sequence>::iterator find(std::int64_t sequence);

  SchedulerLimits limits_;
  KvBlocks blocks_;
  std::deque<Sequence> waiting_;
  std::vector<Sequence> running_;  ///< in order of admission
};

}  // namespace tpinfer
