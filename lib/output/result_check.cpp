#include "output/result_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/units.hpp"
#include "output/result_names.hpp"

namespace tpinfer {
namespace {

constexpr double kRounding = 1e-3;  // of a sum of float32 log probabilities, for each token
// What owned memory may have beyond the plan: padding, of small matrices above all (as the loader itself allows).
constexpr double kMostOverPlan = 1.1;
constexpr std::uint64_t kPaddingSlack = std::uint64_t{16} << 20;

std::string count_of(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", format_count(count), word, count == 1 ? "" : "s");
}

ResultCheck check_complete(const RunResult& r) {
  std::size_t counts[kPromptStatusNames.size()] = {};
  for (const PromptRow& prompt : r.prompts) ++counts[static_cast<std::size_t>(prompt.status)];
  const auto of = [&](PromptStatus status) { return counts[static_cast<std::size_t>(status)]; };
  const std::string what = fmt::format("{}: {} answered, {} failed, {} skipped, {} not reached",
                                       count_of(r.prompts.size(), "prompt"), of(PromptStatus::done),
                                       of(PromptStatus::failed), of(PromptStatus::skipped), of(PromptStatus::pending));
  if (r.state == RunState::complete && of(PromptStatus::pending) == 0) return {true, "complete: " + what};
  return {false, fmt::format("not complete (state {}): {}", name_of(r.state), what)};
}

// Samples are numbered 0, 1, ... for each prompt that is done, and a prompt without an answer says why.
ResultCheck check_answers(const RunResult& r) {
  std::vector<std::int32_t> samples(r.prompts.size(), 0);
  for (const AnswerRow& answer : r.answers) {
    const auto index = static_cast<std::size_t>(answer.prompt_index);
    if (answer.sample_index != samples[index]++ && r.prompts[index].status == PromptStatus::done)
      return {false, fmt::format("prompt {} lacks its answer number {}", r.prompts[index].id, samples[index] - 1)};
  }
  for (std::size_t i = 0; i < r.prompts.size(); ++i) {
    const PromptRow& prompt = r.prompts[i];
    if (prompt.status == PromptStatus::done && samples[i] == 0)
      return {false, fmt::format("prompt {} is done and has no answer", prompt.id)};
    const bool without = prompt.status == PromptStatus::failed || prompt.status == PromptStatus::skipped;
    if (without && prompt.error.empty())
      return {false, fmt::format("prompt {} is {} and does not say why", prompt.id, name_of(prompt.status))};
  }
  return {true, fmt::format("{}, each prompt has its own", count_of(r.answers.size(), "answer"))};
}

ResultCheck check_logprobs(const RunResult& r) {
  std::size_t tokens = 0;
  for (const AnswerRow& answer : r.answers) {
    const auto name = [&] {
      return fmt::format("answer {} of prompt {}", answer.sample_index,
                         r.prompts[static_cast<std::size_t>(answer.prompt_index)].id);
    };
    tokens += answer.token_ids.size();
    if (answer.logprobs.empty()) continue;  // a file of another program may lack them
    if (answer.logprobs.size() != answer.token_ids.size())
      return {false, fmt::format("{} has {} tokens and {} log probabilities", name(), answer.token_ids.size(),
                                 answer.logprobs.size())};
    double sum = 0;
    for (const float logprob : answer.logprobs) {
      if (!std::isfinite(logprob) || logprob > 1e-5F)
        return {false, fmt::format("{} has the log probability {}", name(), logprob)};
      sum += static_cast<double>(logprob);
    }
    const double slack = kRounding * static_cast<double>(answer.logprobs.size() + 1);
    if (!(std::abs(sum - answer.cumulative_logprob) <= slack))
      return {false, fmt::format("{}: its log probabilities add up to {:.4f}, stored is {:.4f}", name(), sum,
                                 answer.cumulative_logprob)};
  }
  return {true, fmt::format("{}, log probabilities add up", count_of(tokens, "token"))};
}

// The ranges of all ranks together reach from 0 to the tensor's end.
ResultCheck check_coverage(const RunResult& r) {
  struct Cut {
    std::int32_t axis = -1;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  };
  std::vector<Cut> cuts(r.plan_tensors.size());
  for (const PlanSliceRow& slice : r.plan_slices) {
    if (slice.tensor < 0 || slice.tensor >= std::ssize(cuts))
      return {false, fmt::format("the plan has a slice of tensor {}, which is none", slice.tensor)};
    Cut& cut = cuts[static_cast<std::size_t>(slice.tensor)];
    cut.axis = std::max(cut.axis, slice.axis);
    cut.ranges.emplace_back(slice.start, slice.start + slice.count);
  }
  if (cuts.empty()) return {false, "the file has no plan"};
  for (std::size_t t = 0; t < cuts.size(); ++t) {
    const PlanTensorRow& tensor = r.plan_tensors[t];
    auto& [axis, ranges] = cuts[t];
    if (ranges.empty()) return {false, fmt::format("no rank holds {}", tensor.name)};
    if (axis < 0 || axis >= std::ssize(tensor.shape)) continue;  // whole
    std::ranges::sort(ranges);
    std::int64_t reached = 0;
    for (const auto& [begin, end] : ranges)
      if (begin <= reached) reached = std::max(reached, end);
    if (const auto extent = tensor.shape[static_cast<std::size_t>(axis)]; reached < extent)
      return {false, fmt::format("no rank holds {} of {} of axis {} of {}", reached, extent, axis, tensor.name)};
  }
  return {true, fmt::format("the slices of the plan cover {}", count_of(cuts.size(), "tensor"))};
}

std::string loaded_fault(const RunResult& r, const RankRow& rank, std::uint64_t tensors) {
  const RankRow::Weights& w = rank.weights;
  const auto by_class = std::accumulate(w.planned_by_class.begin(), w.planned_by_class.end(), std::uint64_t{0});
  if (by_class != w.bytes_planned)
    return fmt::format("planned are {} B, its classes add up to {} B", w.bytes_planned, by_class);
  if (w.n_tensors != tensors) return fmt::format("it loaded {} tensors, the plan gives it {}", w.n_tensors, tensors);
  if (w.bytes_owned < w.bytes_planned)
    return fmt::format("it owns {} B of weights, {} B were planned", w.bytes_owned, w.bytes_planned);
  if (static_cast<double>(w.bytes_owned) >
      kMostOverPlan * static_cast<double>(w.bytes_planned) + static_cast<double>(kPaddingSlack))
    return fmt::format("it owns {} B of weights, only {} B were planned", w.bytes_owned, w.bytes_planned);
  for (std::size_t c = 0; c < std::min(w.planned_by_class.size(), w.owned_by_class.size()); ++c)
    if (w.owned_by_class[c] < w.planned_by_class[c])
      return fmt::format("it owns {} B of {}, {} B were planned", w.owned_by_class[c], r.weight_classes[c],
                         w.planned_by_class[c]);
  return {};
}

// Loaded = planned; then what all ranks hold alike must have been the same bytes.
void check_ranks(const RunResult& r, std::vector<ResultCheck>& out) {
  if (r.ranks.empty()) return out.push_back({true, "no weights were loaded: all answers were there already"});
  if (std::ssize(r.ranks) != r.world_size)
    return out.push_back({false, fmt::format("{} ranks ran, {} have a row", r.world_size, r.ranks.size())});
  std::map<std::int32_t, std::set<std::int64_t>> tensors;  // of each place in a replica
  for (const PlanSliceRow& slice : r.plan_slices)
    if (slice.count > 0) tensors[slice.rank].insert(slice.tensor);
  std::uint64_t owned = 0;
  for (const RankRow& rank : r.ranks) {
    const std::string fault = loaded_fault(r, rank, tensors[rank.tp_rank].size());
    if (!fault.empty()) return out.push_back({false, fmt::format("rank {}: {}", rank.rank, fault)});
    owned += rank.weights.bytes_owned;
  }
  out.push_back({true, fmt::format("loaded = planned on {}: {} owned in all", count_of(r.ranks.size(), "rank"),
                                   format_bytes(owned))});
  for (const RankRow& rank : r.ranks)
    if (rank.weights.checksum != r.ranks.front().weights.checksum)
      return out.push_back({false, fmt::format("rank {} has another checksum of what all ranks hold than rank {}",
                                               rank.rank, r.ranks.front().rank)});
  if (r.ranks.size() > 1) out.push_back({true, "what all ranks hold has one checksum"});
}

}  // namespace

std::vector<ResultCheck> check_result(const RunResult& result) {
  std::vector<ResultCheck> out{check_complete(result), check_answers(result), check_logprobs(result)};
  // a journal has neither plan nor ranks: they are written at the end
  if (result.state != RunState::complete && result.plan_tensors.empty()) return out;
  out.push_back(check_coverage(result));
  check_ranks(result, out);
  return out;
}

}  // namespace tpinfer
