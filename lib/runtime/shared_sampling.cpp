#include "runtime/shared_sampling.hpp"

#include <algorithm>
#include <bit>

namespace tpinfer {
namespace {

/// Edits of a step from which on their way to the other ranks takes about as long as what is saved.
constexpr std::size_t kMostEdits = 1 << 16;
/// Numbers of an outcome besides its alternatives: finite, id, log probability, number of alternatives.
constexpr std::int64_t kHead = 4;

std::int64_t floats_of_outcome(const Step& step) {
  std::int64_t most = 0;
  for (const RowWish& wish : step.wishes) most = std::max<std::int64_t>(most, wish.alternatives);
  return kHead + 2 * most;
}

float as_float(std::int32_t number) { return std::bit_cast<float>(number); }
std::int32_t as_number(float bits) { return std::bit_cast<std::int32_t>(bits); }

void write(const RowOutcome& outcome, float* to) {
  to[0] = as_float(outcome.finite ? 1 : 0);
  to[1] = as_float(outcome.token.id);
  to[2] = outcome.token.logprob;
  to[3] = as_float(static_cast<std::int32_t>(outcome.top.size()));
  for (std::size_t k = 0; k < outcome.top.size(); ++k) {
    to[kHead + 2 * static_cast<std::int64_t>(k)] = as_float(outcome.top[k].id);
    to[kHead + 2 * static_cast<std::int64_t>(k) + 1] = outcome.top[k].logprob;
  }
}

void read(const float* from, RowOutcome& outcome) {
  outcome.finite = as_number(from[0]) != 0;
  outcome.token = {as_number(from[1]), from[2]};
  outcome.top.clear();
  const std::int32_t count = as_number(from[3]);
  for (std::int32_t k = 0; k < count; ++k)
    outcome.top.push_back({as_number(from[kHead + 2 * k]), from[kHead + 2 * k + 1]});
}

}  // namespace

bool SharedSampling::may_share(std::int64_t rows, std::int64_t least) const {
  return comm_.shares_rows() && comm_.size() > 1 && rows >= 2 && rows * vocab_ >= least;
}

bool SharedSampling::prepare(std::span<const RowTask> tasks, Step& step) {
  step.wishes.clear();
  step.edits.clear();
  for (const RowTask& task : tasks) step.wishes.push_back(wish_of(task, vocab_, step.edits, memory_));
  // an outcome must also be small beside the logits that it stands for, whose place it takes when it is sent
  if (step.edits.size() <= kMostEdits && floats_of_outcome(step) * comm_.size() * 2 <= vocab_) return true;
  step.wishes.clear();
  step.edits.clear();
  return false;
}

void SharedSampling::do_rows(const Step& step, std::int64_t first, std::int64_t rows, const float* logits) {
  outcomes_.resize(std::max(outcomes_.size(), static_cast<std::size_t>(rows)));
  scratch_.resize(static_cast<std::size_t>(parallel_.threads()));
  each_row(parallel_, rows, [&](std::int64_t row, std::size_t thread) {
    do_wish(step.wishes[static_cast<std::size_t>(first + row)], step.edits, known_,
            {logits + row * vocab_, static_cast<std::size_t>(vocab_)}, scratch_[thread],
            outcomes_[static_cast<std::size_t>(row)]);
  });
}

void SharedSampling::collect(const Step& step, std::int64_t first, std::span<const std::int64_t> begins,
                             std::span<RowOutcome> outcomes) {
  const std::int64_t floats = floats_of_outcome(step);
  widths_.clear();
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) widths_.push_back((begins[r + 1] - begins[r]) * floats);
  const auto me = static_cast<std::size_t>(comm_.rank());
  own_.resize(std::max(own_.size(), static_cast<std::size_t>(widths_[me])));
  for (std::int64_t row = 0; row < begins[me + 1] - begins[me]; ++row)
    write(outcomes_[static_cast<std::size_t>(row)], own_.data() + row * floats);
  if (me == 0) all_.resize(std::max(all_.size(), static_cast<std::size_t>(begins.back() * floats)));
  comm_.gather_columns(own_.data(), 1, widths_, all_.data());
  if (me != 0) return;
  for (std::int64_t row = 0; row < begins.back(); ++row)
    read(all_.data() + row * floats, outcomes[static_cast<std::size_t>(first + row)]);
}

}  // namespace tpinfer
