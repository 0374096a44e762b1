#include "runtime/scheduler.hpp"

#include <algorithm>

#include "core/checked_cast.hpp"
#include "core/error.hpp"
#include "core/exact_sum.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kLookahead = 64;  // waiting sequences looked at for one that need not wait for a prefix

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// First position that a row at `position` may read, whole attention blocks being read.
std::int64_t first_read(std::int64_t position, std::int64_t window) {
  return window > 0 ? std::max<std::int64_t>(0, position + 1 - window) / kAttentionBlock * kAttentionBlock : 0;
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits), blocks_(limits.blocks, limits.block_size) {}

std::int64_t blocks_at_once(std::int64_t tokens, std::int64_t block_size, std::int64_t window) noexcept {
  const std::int64_t all = divide_up(tokens, block_size);
  return window == 0 ? all : std::min(all, divide_up(window + kAttentionBlock, block_size) + 2);
}

// Blocks that are left to the running sequences when another one is admitted: they will ask for them soon.
std::int64_t Scheduler::reserve() const noexcept {
  std::int64_t growth = 0;
  for (const Owned& s : running_) growth += divide_up(s->most_tokens, limits_.block_size) - std::ssize(s->blocks);
  return std::min(growth, 1 + running() / 4);
}

void Scheduler::add(Sequence sequence) {
  if (!fits(sequence.most_tokens) || sequence.tokens.empty())
    throw Error(ExitCode::internal, fmt::format("a sequence of {} tokens was queued for a cache of {}",
                                                sequence.most_tokens, blocks_.total() * limits_.block_size));
  sequence.tokens.reserve(static_cast<std::size_t>(sequence.most_tokens));
  sequence.blocks.reserve(static_cast<std::size_t>(divide_up(sequence.most_tokens, limits_.block_size)));
  by_index_.resize(std::max(by_index_.size(), static_cast<std::size_t>(sequence.index) + 1));
  waiting_.push_back(std::make_unique<Sequence>(std::move(sequence)));
}

Sequence& Scheduler::find(std::int64_t sequence) const {
  const auto index = static_cast<std::size_t>(sequence);
  if (index >= by_index_.size() || !by_index_[index])
    throw Error(ExitCode::internal, fmt::format("the sequence {} is not running", sequence));
  return *by_index_[index];
}

void Scheduler::append(std::int64_t sequence, std::int32_t token) { find(sequence).tokens.push_back(token); }

// Deepest first: they are the first to be taken again, so that what others may share stays longest.
void Scheduler::free_blocks(Sequence& sequence) {
  for (std::size_t b = sequence.blocks.size(); b-- > 0;)
    if (sequence.blocks[b] >= 0) blocks_.release(sequence.blocks[b]);
  sequence.blocks.clear();
}

void Scheduler::finish(std::int64_t sequence) {
  Sequence& done = find(sequence);
  free_blocks(done);
  by_index_[static_cast<std::size_t>(sequence)] = nullptr;
  running_.erase(std::ranges::find(running_, &done, &Owned::get));
}

void Scheduler::release_outside_window(Sequence& sequence) {
  const std::int64_t kept = std::min(first_read(sequence.computed, limits_.window) / limits_.block_size,
                                     static_cast<std::int64_t>(sequence.blocks.size()));
  for (; sequence.released < kept; ++sequence.released) {
    std::int32_t& block = sequence.blocks[static_cast<std::size_t>(sequence.released)];
    blocks_.release(block);
    block = -1;
  }
}

std::vector<std::int64_t> Scheduler::drop_waiting() {
  std::vector<std::int64_t> dropped;
  std::erase_if(waiting_, [&](const Owned& sequence) {
    if (!sequence->preempted) dropped.push_back(sequence->index);
    return !sequence->preempted;
  });
  return dropped;
}

void Scheduler::preempt_last() {
  Owned sequence = std::move(running_.back());
  running_.pop_back();
  by_index_[static_cast<std::size_t>(sequence->index)] = nullptr;
  free_blocks(*sequence);
  sequence->computed = sequence->settled = 0;
  sequence->chain = KvBlocks::kRoot;
  sequence->released = 0;
  sequence->preempted = true;
  waiting_.push_front(std::move(sequence));
  ++counts_.preemptions;
  preempted_ = true;
}

// A free block for the next token of a running sequence; those that were admitted after it give way.
// -> false when the sequence itself is the last one and was put back.
bool Scheduler::make_room(const Sequence& sequence) {
  if (sequence.computed < static_cast<std::int64_t>(sequence.blocks.size()) * limits_.block_size) return true;
  while (blocks_.free() == 0) {
    const bool itself = running_.back().get() == &sequence;
    if (itself && running_.size() == 1)
      throw Error(ExitCode::internal, fmt::format("a sequence alone does not fit in {} cache blocks", blocks_.total()));
    preempt_last();
    if (itself) return false;
  }
  return true;
}

// Rows for which the sequence has blocks or could take free ones.
std::int64_t Scheduler::rows_with_blocks(const Sequence& sequence) const {
  const auto own = static_cast<std::int64_t>(sequence.blocks.size());
  return (own + blocks_.free()) * limits_.block_size - sequence.computed;
}

void Scheduler::add_rows(Sequence& sequence, std::int64_t count, Step& step, std::vector<LogitRow>& rows) {
  for (const std::int64_t end = sequence.computed + count; sequence.computed < end; ++sequence.computed) {
    const std::int64_t position = sequence.computed;
    const auto index = static_cast<std::size_t>(position / limits_.block_size);
    if (index == sequence.blocks.size()) sequence.blocks.push_back(blocks_.take());
    const std::int32_t block = sequence.blocks[index];
    const std::int32_t token = sequence.tokens[static_cast<std::size_t>(position)];
    if (position >= sequence.next_logit) {
      step.logit_rows.push_back(checked_cast<std::int32_t>(step.rows()));
      rows.push_back({sequence.index, position});
      sequence.next_logit = position + 1;
    }
    step.tokens.push_back(token);
    step.positions.push_back(checked_cast<std::int32_t>(position));
    step.slots.push_back(checked_cast<std::int32_t>(block * limits_.block_size + position % limits_.block_size));
    blocks_.append(block, sequence.chain, token);
    if ((position + 1) % limits_.block_size == 0) sequence.chain = blocks_.chain(block);
  }
  step.row_begin.push_back(checked_cast<std::int32_t>(step.rows()));
  step.table_width = std::max(step.table_width, checked_cast<std::int32_t>(sequence.blocks.size()));
  in_step_.push_back(&sequence);
  left_ -= count;
}

// One row each keeps every running sequence moving. Those of the end give way, so that a scheduled one never does.
void Scheduler::schedule_decodes(Step& step, std::vector<LogitRow>& rows) {
  for (std::size_t i = 0; i < running_.size() && left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.todo() == 1 && make_room(sequence)) add_rows(sequence, 1, step, rows);
  }
}

void Scheduler::schedule_prompts(Step& step, std::vector<LogitRow>& rows) {
  for (std::size_t i = 0; i < running_.size() && left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.todo() == 0) continue;  // in the step already
    // a step without any row would be the last one: then room is made for the oldest
    if (in_step_.empty() && !make_room(sequence)) continue;
    const std::int64_t count = std::min({sequence.todo(), left_, rows_with_blocks(sequence)});
    if (count > 0) add_rows(sequence, count, step, rows);
  }
}

// Whether a running prompt is about to compute more of what this sequence begins with than the cache has now. Samples
// of one prompt wait until it is done, to copy its last block too.
bool Scheduler::is_worth_waiting(const Sequence& sequence) const {
  if (!limits_.prefix_sharing) return false;
  return std::ranges::any_of(running_, [&](const Owned& other) {
    if (sequence.prompt >= 0 && other->prompt == sequence.prompt && other->settled < other->prompt_tokens) return true;
    if (other->computed >= other->prompt_tokens) return false;
    const auto common = std::ranges::mismatch(other->tokens, sequence.tokens).in1 - other->tokens.begin();
    return common - other->computed >= limits_.block_size;
  });
}

// Blocks of a sequence that is about to begin, from what the cache has. The last token is always computed: its logits
// are wanted. -> tokens that need not be computed
std::int64_t Scheduler::start_from_shared(Sequence& sequence, Step& step) {
  const std::int64_t most = std::min(static_cast<std::int64_t>(sequence.tokens.size()) - 1, sequence.next_logit);
  if (!limits_.prefix_sharing) return 0;
  const std::span<const std::int32_t> tokens(sequence.tokens);
  while (sequence.computed + limits_.block_size <= most) {
    const auto block = blocks_.find(sequence.chain, tokens.subspan(static_cast<std::size_t>(sequence.computed),
                                                                   static_cast<std::size_t>(limits_.block_size)));
    if (!block) break;
    blocks_.share(*block);
    sequence.blocks.push_back(*block);
    sequence.chain = blocks_.chain(*block);
    sequence.computed += limits_.block_size;
  }
  const std::int64_t rest = std::min(most - sequence.computed, limits_.block_size);
  const auto from = blocks_.find_partial(
      sequence.chain, tokens.subspan(static_cast<std::size_t>(sequence.computed), static_cast<std::size_t>(rest)));
  if (from.tokens == 0 || blocks_.free() < 2) return sequence.computed;
  blocks_.share(from.block);  // not to be taken for the copy itself
  const std::int32_t block = blocks_.take();
  blocks_.release(from.block);
  step.block_copies.insert(step.block_copies.end(), {from.block, block});
  blocks_.copied(block, sequence.chain, from.block, from.tokens);
  sequence.blocks.push_back(block);
  sequence.computed += from.tokens;
  return sequence.computed;
}

void Scheduler::admit(Step& step, std::vector<LogitRow>& rows) {
  std::size_t skipped = 0;
  while (!preempted_ && left_ > 0 && running() < limits_.max_sequences && skipped < waiting_.size() &&
         skipped < kLookahead) {
    Sequence& sequence = *waiting_[skipped];
    if (is_worth_waiting(sequence)) {
      ++skipped;
      continue;
    }
    const std::int64_t needed = blocks_needed(static_cast<std::int64_t>(sequence.tokens.size()));
    if (!running_.empty() && blocks_.free() < needed + reserve()) return;
    admitted_ = true;
    const std::int64_t saved = start_from_shared(sequence, step);
    if (!sequence.preempted) counts_.shared_tokens += saved;
    by_index_[static_cast<std::size_t>(sequence.index)] = &sequence;
    running_.push_back(std::move(waiting_[skipped]));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(skipped));
    release_outside_window(sequence);
    const std::int64_t count = std::min({sequence.todo(), left_, rows_with_blocks(sequence)});
    if (count > 0) add_rows(sequence, count, step, rows);
  }
}

void Scheduler::reserve_block_table(Step& step) const {
  std::int64_t widest = 0;
  for (const Owned& s : running_) widest = std::max(widest, divide_up(s->most_tokens, limits_.block_size));
  step.block_table.reserve(running_.size() * static_cast<std::size_t>(widest));  // room for what they will grow to
}

void Scheduler::fill_block_table(Step& step) const {
  const auto width = static_cast<std::size_t>(step.table_width);
  reserve_block_table(step);
  step.block_table.assign(in_step_.size() * width, -1);
  for (std::size_t s = 0; s < in_step_.size(); ++s)
    std::ranges::copy(in_step_[s]->blocks, step.block_table.begin() + static_cast<std::ptrdiff_t>(s * width));
}

bool Scheduler::next(Step& step, std::vector<LogitRow>& rows, Foresight* foreseen) {
  step.clear();
  rows.clear();
  in_step_.clear();
  left_ = limits_.max_rows;
  preempted_ = admitted_ = false;
  blocks_.begin_step();
  for (const Owned& sequence : running_) {
    sequence->settled = sequence->computed;
    release_outside_window(*sequence);
  }
  schedule_decodes(step, rows);
  schedule_prompts(step, rows);
  admit(step, rows);
  if (in_step_.empty() && !(running_.empty() && waiting_.empty()))
    throw Error(ExitCode::internal,
                fmt::format("{} running and {} waiting sequences do not go on", running(), waiting()));
  // a sequence that has just been admitted may have the number of one that has ended
  if (foreseen && !admitted_ && foreseen->complete(step, rows)) return true;
  fill_block_table(step);
  return !in_step_.empty();
}

// The row of a sequence's next token, in the block that it will take. -> false when there will be no block.
bool Scheduler::foresee_row(const Sequence& sequence, std::int32_t& last_taken, Foresight& foreseen) const {
  const std::int64_t position = sequence.computed;
  const auto index = static_cast<std::size_t>(position / limits_.block_size);
  const bool takes = index == sequence.blocks.size();
  if (takes && (last_taken = blocks_.upcoming(last_taken)) < 0) return false;
  const std::int32_t block = takes ? last_taken : sequence.blocks[index];
  Step& step = foreseen.step;
  foreseen.rows.push_back({sequence.index, position});
  step.logit_rows.push_back(checked_cast<std::int32_t>(step.rows()));
  step.tokens.push_back(0);
  step.positions.push_back(checked_cast<std::int32_t>(position));
  step.slots.push_back(checked_cast<std::int32_t>(block * limits_.block_size + position % limits_.block_size));
  step.row_begin.push_back(checked_cast<std::int32_t>(step.rows()));
  step.table_width = std::max(step.table_width, checked_cast<std::int32_t>(index + 1));
  return true;
}

void Scheduler::foresee(Foresight& foreseen) const {
  foreseen.clear();
  bool ends = false;
  std::int32_t last_taken = -1;
  for (const Owned& s : running_) {
    if (s->todo() > 0) return;  // of a prompt
    const bool is_last = std::ssize(s->tokens) + 1 >= s->most_tokens;
    ends = ends || is_last;
    if (is_last || foreseen.step.rows() == limits_.max_rows) continue;
    if (!foresee_row(*s, last_taken, foreseen)) return;
  }
  if (foreseen.rows.empty() || (ends && waiting() > 0)) return;
  Step& step = foreseen.step;
  const auto width = static_cast<std::size_t>(step.table_width);
  reserve_block_table(step);
  step.block_table.assign(foreseen.rows.size() * width, -1);
  for (std::size_t r = 0; r < foreseen.rows.size(); ++r) {
    const Sequence& sequence = find(foreseen.rows[r].sequence);
    const std::span row = std::span(step.block_table).subspan(r * width, width);
    std::ranges::copy(sequence.blocks, row.begin());
    row[static_cast<std::size_t>(sequence.computed / limits_.block_size)] =
        checked_cast<std::int32_t>(step.slots[r] / limits_.block_size);
    const auto kept = static_cast<std::size_t>(first_read(sequence.computed, limits_.window) / limits_.block_size);
    std::ranges::fill(row.first(std::min(kept, sequence.blocks.size())), -1);
  }
  foreseen.fewest = foreseen.step.rows();
  foreseen.ready = true;
}

}  // namespace tpinfer
