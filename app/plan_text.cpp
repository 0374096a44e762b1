#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "app/plan_report.hpp"
#include "app/table.hpp"
#include "core/units.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kShownTroubles = 20;
constexpr std::size_t kReasonWidth = 200;  // terminal cells

// "1 rank", "4 ranks".
std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
}

std::string model_line(const ModelFolder& model, DType compute) {
  return fmt::format("{}: {}, {} parameters, {} as {} in {} files; computed in {}\n", model.path,
                     model.spec.architecture, format_count(model.claims.parameters),
                     format_bytes(model.checkpoint.file_bytes()), dtype_name(model.claims.stored_dtype),
                     model.checkpoint.files().size(), dtype_name(compute));
}

std::string prompts_text(const std::optional<PromptReport>& prompts) {
  if (!prompts) return {};
  std::string text = counted(prompts->count, "prompt");
  if (prompts->longest > 0)
    text += fmt::format(", the longest is \"{}\" with {} tokens; with its answer a sequence has up to {} tokens",
                        one_line(prompts->longest_id, 40), format_count(static_cast<std::uint64_t>(prompts->longest)),
                        format_count(static_cast<std::uint64_t>(prompts->longest_sequence)));
  text += '\n';
  const auto& troubles = prompts->cannot_run;
  if (troubles.empty()) return text;
  text += fmt::format("{} of them cannot run:\n", troubles.size());
  for (std::size_t i = 0; i < std::min(troubles.size(), kShownTroubles); ++i)
    text += fmt::format("  {}: {}\n", one_line(troubles[i].id, 40), one_line(troubles[i].reason, kReasonWidth));
  if (troubles.size() > kShownTroubles)
    text += fmt::format("  and {} more (--json names all)\n", troubles.size() - kShownTroubles);
  return text;
}

std::string capacity_text(const MemoryPlan& memory) {
  const std::int64_t sequences = memory.kv_tokens() / memory.limits.max_model_len;
  const std::string whole =
      sequences > 0 ? counted(static_cast<std::uint64_t>(sequences), "sequence") : "less than one sequence";
  return fmt::format("KV cache for {} tokens, {} of {}", format_count(static_cast<std::uint64_t>(memory.kv_tokens())),
                     whole, format_count(static_cast<std::uint64_t>(memory.limits.max_model_len)));
}

std::string tensors_text(const ShardingPlan& plan) {
  std::string text;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    text += fmt::format("{} {} [{}] {}:", tensor.name, tensor.role, fmt::join(tensor.shape, ", "),
                        split_name(tensor.split));
    for (const PlannedSlice& slice : plan.slices[t]) {
      std::string ranges;
      for (const Range& range : slice.ranges)
        ranges += fmt::format("{}{}+{}", ranges.empty() ? "" : ",", range.begin, range.count());
      text += " " + (tensor.split == Split::replicated ? "*" : ranges.empty() ? "-" : ranges);
    }
    text += '\n';
  }
  return text;
}

// "23.35 GB", or "30.85 - 31.28 GB" where ranks differ.
std::string spread(const MemoryPlan& memory, const std::function<std::uint64_t(const RankMemoryPlan&)>& value) {
  std::uint64_t least = value(memory.ranks.front()), most = least;
  for (const RankMemoryPlan& rank : memory.ranks) {
    least = std::min(least, value(rank));
    most = std::max(most, value(rank));
  }
  const std::string low = format_bytes(least), high = format_bytes(most);
  return low == high ? low : low + " - " + high;
}

}  // namespace

std::string plan_text(const ModelFolder& model, const PlannedCount& count, const std::optional<PromptReport>& prompts,
                      bool tensors) {
  const MemoryPlan& memory = count.memory;
  std::string text = model_line(model, count.plan.compute_dtype) + prompts_text(prompts);
  text += counted(static_cast<std::uint64_t>(count.ranks), "rank");
  text += (memory.fits ? "; " + capacity_text(memory) : "") + "\n";
  Table table({"rank", "weights", "KV cache", "workspace", "total", "budget", "fits"});
  for (std::size_t r = 0; r < memory.ranks.size(); ++r) {
    const RankMemoryPlan& mine = memory.ranks[r];
    table.row({std::to_string(r), format_bytes(mine.weights), format_bytes(mine.kv_cache), format_bytes(mine.workspace),
               format_bytes(mine.total()), format_bytes(mine.budget), mine.fits ? "yes" : "no"});
  }
  text += table.text();
  if (!memory.fits) text += "does not fit: " + memory.hint + "\n";
  return tensors ? text + tensors_text(count.plan) : text;
}

std::string counts_text(const ModelFolder& model, const std::vector<PlannedCount>& counts,
                        const std::optional<PromptReport>& prompts) {
  std::string text = model_line(model, counts.front().plan.compute_dtype) + prompts_text(prompts);
  Table table({"ranks", "weights of a rank", "total of a rank", "KV cache tokens", "fits"});
  for (const PlannedCount& count : counts) {
    const MemoryPlan& memory = count.memory;
    if (!count.refused.empty())
      table.row({std::to_string(count.ranks), "-", "-", "-", "no"});
    else
      table.row({std::to_string(count.ranks), spread(memory, &RankMemoryPlan::weights),
                 spread(memory, &RankMemoryPlan::total),
                 memory.fits ? format_count(static_cast<std::uint64_t>(memory.kv_tokens())) : "-",
                 memory.fits ? "yes" : "no"});
  }
  text += table.text();
  for (const PlannedCount& count : counts)
    if (!count.refused.empty()) return text + count.refused + "\n";
  if (std::ranges::none_of(counts, [](const PlannedCount& count) { return count.memory.fits; }))
    text += fmt::format("does not fit: with {}, {}\n", counted(static_cast<std::uint64_t>(counts.back().ranks), "rank"),
                        counts.back().memory.hint);
  return text;
}

}  // namespace tpinfer
