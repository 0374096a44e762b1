#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "runtime/foresight.hpp"
#include "runtime/kv_blocks.hpp"

namespace tpinfer {

/// What the scheduler knows of one sequence.
struct Sequence {
  std::int64_t index = 0;            ///< of the engine's list
  std::vector<std::int32_t> tokens;  ///< prompt, then what was generated
  std::int64_t prompt_tokens = 0;
  std::int64_t most_tokens = 0;  ///< prompt and new tokens at the end at the latest
  /// First position whose logits are still wanted: 0 for prompt log probabilities, else the last of the prompt.
  std::int64_t next_logit = 0;
  std::int64_t prompt = -1;          ///< sequences with the same number >= 0 are samples of one prompt
  bool preempted = false;            ///< runs again from its first token
  std::int64_t settled = 0;          ///< tokens computed before the current step
  std::int64_t computed = 0;         ///< tokens whose K and V are in the cache
  PrefixChain chain = 0;             ///< behind the full blocks of these
  std::int64_t released = 0;         ///< blocks in front that have fallen out of the window
  std::vector<std::int32_t> blocks;  ///< cache blocks in order of position; -1: released

  std::int64_t todo() const noexcept { return static_cast<std::int64_t>(tokens.size()) - computed; }
};

struct SchedulerLimits {
  std::int64_t max_sequences = 256;
  std::int64_t max_rows = 2048;
  std::int64_t block_size = 16;
  std::int64_t blocks = 0;
  bool prefix_sharing = true;
  std::int64_t window = 0;  ///< positions that any layer looks back on, its own included; 0: all
};

struct SchedulerCounts {
  std::int64_t preemptions = 0;
  std::int64_t shared_tokens = 0;  ///< that were not computed because their K and V were there
};

/// Cache blocks that a sequence of this many tokens holds at once when it is alone. `window` as in SchedulerLimits:
/// with one, less than all of the sequence.
std::int64_t blocks_at_once(std::int64_t tokens, std::int64_t block_size, std::int64_t window) noexcept;

/// Continuous batching on rank 0 of a group: sequences join and leave at every step, prompts are computed in chunks
/// beside decodes, in the order in which they were added. Blocks are taken as they are needed; when none is left the
/// sequence that was admitted last is put back and computed again later, from what the cache still holds of it. The
/// oldest one always goes on, so that every sequence ends.
///
/// Prefix sharing: a sequence starts from the full blocks that any other one with the same beginning has filled (also
/// in this very step: K and V of all rows are stored before any row attends), and from a copy of a partly equal block.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  /// Whether a sequence that may grow to this many tokens can run at all.
  bool fits(std::int64_t most_tokens) const noexcept { return blocks_needed(most_tokens) <= blocks_.total(); }
  /// fits(sequence.most_tokens) must hold.
  void add(Sequence sequence);
  /// Fills the next step and its logit rows (same order as Step::logit_rows); false when no sequence is left. With what
  /// was foreseen since the last one, the step may be the late part of that: otherwise it is as without.
  bool next(Step& step, std::vector<LogitRow>& rows, Foresight* foreseen = nullptr);
  /// The step after the last one, before tokens have come of it, where every sequence will go on with one token: those
  /// whose last one comes now are not in it.
  void foresee(Foresight& foreseen) const;
  /// Appends a token that was chosen from the last position's logits.
  void append(std::int64_t sequence, std::int32_t token);
  /// Takes the sequence out and frees its blocks.
  void finish(std::int64_t sequence);
  /// Takes out all sequences that have not run yet; -> their indices.
  std::vector<std::int64_t> drop_waiting();
  /// The tokens of a running sequence.
  const std::vector<std::int32_t>& tokens(std::int64_t sequence) const { return find(sequence).tokens; }

  std::int64_t waiting() const noexcept { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t running() const noexcept { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t blocks_used() const noexcept { return blocks_.used(); }
  const SchedulerCounts& counts() const noexcept { return counts_; }
  const KvBlocks& blocks() const noexcept { return blocks_; }

 private:
  using Owned = std::unique_ptr<Sequence>;

  std::int64_t blocks_needed(std::int64_t tokens) const noexcept {
    return blocks_at_once(tokens, limits_.block_size, limits_.window);
  }
  std::int64_t reserve() const noexcept;
  Sequence& find(std::int64_t sequence) const;
  void release_outside_window(Sequence& sequence);
  bool make_room(const Sequence& sequence);
  void preempt_last();
  void schedule_decodes(Step& step, std::vector<LogitRow>& rows);
  void schedule_prompts(Step& step, std::vector<LogitRow>& rows);
  void admit(Step& step, std::vector<LogitRow>& rows);
  bool is_worth_waiting(const Sequence& sequence) const;
  std::int64_t start_from_shared(Sequence& sequence, Step& step);
  std::int64_t rows_with_blocks(const Sequence& sequence) const;
  void add_rows(Sequence& sequence, std::int64_t count, Step& step, std::vector<LogitRow>& rows);
  bool foresee_row(const Sequence& sequence, std::int32_t& last_taken, Foresight& foreseen) const;
  void reserve_block_table(Step& step) const;
  void fill_block_table(Step& step) const;
  void free_blocks(Sequence& sequence);

  SchedulerLimits limits_;
  KvBlocks blocks_;
  SchedulerCounts counts_;
  std::deque<Owned> waiting_;
  std::vector<Owned> running_;            ///< in order of admission
  std::vector<Sequence*> by_index_;       ///< of running_; null: not running
  std::vector<const Sequence*> in_step_;  ///< of the step that is being made
  std::int64_t left_ = 0;                 ///< rows of it that are free
  bool preempted_ = false;                ///< in this step
  bool admitted_ = false;                 ///< in this step
};

}  // namespace tpinfer
