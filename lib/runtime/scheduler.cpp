#include "runtime/scheduler.hpp"

#include <algorithm>

#include "core/checked_cast.hpp"
#include "core/error.hpp"

namespace tpinfer {

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits), blocks_(limits.blocks) {}

void Scheduler::add(Sequence sequence) {
  if (sequence.most_tokens > capacity_tokens() || sequence.tokens.empty())
    throw Error(ExitCode::internal, fmt::format("a sequence of {} tokens was queued for a cache of {}",
                                                sequence.most_tokens, capacity_tokens()));
  waiting_.push_back(std::move(sequence));
}

void Scheduler::admit() {
  while (!waiting_.empty() && running() < limits_.max_sequences) {
    const std::int64_t needed = (waiting_.front().most_tokens + limits_.block_size - 1) / limits_.block_size;
    if (needed > blocks_.free()) return;
    Sequence& sequence = running_.emplace_back(std::move(waiting_.front()));
    waiting_.pop_front();
    for (std::int64_t b = 0; b < needed; ++b) sequence.blocks.push_back(blocks_.take());
  }
}

void Scheduler::add_rows(Sequence& sequence, std::int64_t count, Step& step, std::vector<LogitRow>& rows) const {
  for (std::int64_t position = sequence.computed; position < sequence.computed + count; ++position) {
    const std::int32_t block = sequence.blocks[static_cast<std::size_t>(position / limits_.block_size)];
    if (position >= sequence.first_logit) {
      step.logit_rows.push_back(checked_cast<std::int32_t>(step.rows()));
      rows.push_back({sequence.index, position});
    }
    step.tokens.push_back(sequence.tokens[static_cast<std::size_t>(position)]);
    step.positions.push_back(checked_cast<std::int32_t>(position));
    step.slots.push_back(checked_cast<std::int32_t>(block * limits_.block_size + position % limits_.block_size));
  }
  sequence.computed += count;
  step.row_begin.push_back(checked_cast<std::int32_t>(step.rows()));
}

bool Scheduler::next(Step& step, std::vector<LogitRow>& rows) {
  step.clear();
  rows.clear();
  admit();
  if (running_.empty()) return false;
  std::int64_t left = limits_.max_rows;
  std::vector<const Sequence*> in_step;
  // decodes first: one row each keeps every running sequence moving
  for (const bool decodes : {true, false}) {
    for (Sequence& sequence : running_) {
      const std::int64_t todo = static_cast<std::int64_t>(sequence.tokens.size()) - sequence.computed;
      const bool decoding = sequence.computed >= sequence.prompt_tokens;
      if (decoding != decodes || left == 0) continue;
      const std::int64_t count = std::min(todo, left);
      add_rows(sequence, count, step, rows);
      in_step.push_back(&sequence);
      left -= count;
      const std::int64_t width = (sequence.computed + limits_.block_size - 1) / limits_.block_size;
      step.table_width = std::max(step.table_width, checked_cast<std::int32_t>(width));
    }
  }
  step.block_table.assign(in_step.size() * static_cast<std::size_t>(step.table_width), -1);
  for (std::size_t s = 0; s < in_step.size(); ++s) {
    const auto& blocks = in_step[s]->blocks;
    const auto count = std::min<std::size_t>(blocks.size(), static_cast<std::size_t>(step.table_width));
    std::copy_n(blocks.begin(), count,
                step.block_table.begin() + static_cast<std::ptrdiff_t>(s * static_cast<std::size_t>(step.table_width)));
  }
  return true;
}

std::vector<Sequence>::iterator Scheduler::find(std::int64_t sequence) {
  const auto at = std::ranges::find(running_, sequence, &Sequence::index);
  if (at == running_.end()) throw Error(ExitCode::internal, fmt::format("the sequence {} is not running", sequence));
  return at;
}

void Scheduler::append(std::int64_t sequence, std::int32_t token) { find(sequence)->tokens.push_back(token); }

void Scheduler::finish(std::int64_t sequence) {
  const auto at = find(sequence);
  blocks_.give_back(at->blocks);
  running_.erase(at);
}

}  // namespace tpinfer
