#include "app/cmd_plan.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "backend/factory.hpp"
#include "core/units.hpp"
#include "job/job.hpp"
#include "memory/machine_memory.hpp"
#include "runtime/memory_plan.hpp"
#include "runtime/model_folder.hpp"

namespace tpinfer {
namespace {

struct RankCounts {
  int least = 1, most = 1;
};

RankCounts parse_ranks(const std::string& text) {
  const auto number = [&](std::string_view word) {
    int value = 0;
    const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (ec != std::errc() || end != word.data() + word.size() || value < 1 || value > 4096)
      throw Error(ExitCode::usage,
                  fmt::format("--ranks {}: a number such as 4 or a range such as 1..8 is needed", text));
    return value;
  };
  if (text.empty()) return {};
  const auto dots = text.find("..");
  if (dots == std::string::npos) return {number(text), number(text)};
  const RankCounts counts{number(std::string_view(text).substr(0, dots)),
                          number(std::string_view(text).substr(dots + 2))};
  if (counts.most < counts.least) throw Error(ExitCode::usage, fmt::format("--ranks {}: the range is empty", text));
  return counts;
}

std::vector<std::uint64_t> parse_memory(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto bytes = parse_size(std::string_view(text).substr(at, end - at));
    if (!bytes) throw Error(ExitCode::usage, fmt::format("--memory {}: sizes such as 80GiB are needed", text));
    sizes.push_back(*bytes);
    at = end + 1;
  }
  return sizes;
}

// What is planned for: a job, or a bare model folder with the job's defaults.
Job read_target(const PlanOptions& options) {
  std::error_code ec;
  if (!std::filesystem::is_directory(options.target, ec))
    return load_job(options.target, {.sets = options.sets, .limit = {}});
  const std::string folder = std::filesystem::absolute(options.target).string();
  const Json job{{"model", folder}, {"prompts", {{"file", "prompts.jsonl"}}}, {"output", {{"file", "answers.h5"}}}};
  return parse_job_text(job.dump(), options.target, std::filesystem::current_path(),
                        {.sets = options.sets, .limit = {}});
}

std::vector<std::uint64_t> budgets_for(const Job& job, const std::vector<std::uint64_t>& given, int ranks) {
  const std::uint64_t share =
      given.empty() ? job.memory.cpu_memory_limit.value_or(fair_share(usable_memory(), ranks)) : given.back();
  std::vector<std::uint64_t> budgets(static_cast<std::size_t>(ranks), share);
  std::copy_n(given.begin(), std::min(given.size(), budgets.size()), budgets.begin());
  return budgets;
}

Json slices_json(const PlannedTensor& tensor, const std::vector<PlannedSlice>& slices) {
  Json list = Json::array();
  for (std::size_t rank = 0; rank < slices.size(); ++rank) {
    const std::int64_t extent = slices[rank].extent();
    const std::uint64_t bytes = slice_bytes(tensor, slices[rank]);
    for (const Range& range : slices[rank].ranges) {
      std::vector<std::int64_t> start(tensor.shape.size(), 0);
      std::vector<std::int64_t> count = tensor.shape;
      start[static_cast<std::size_t>(slices[rank].axis)] = range.begin;
      count[static_cast<std::size_t>(slices[rank].axis)] = range.count();
      list.push_back(
          {{"rank", rank},
           {"start", start},
           {"count", count},
           {"bytes", bytes / static_cast<std::uint64_t>(extent) * static_cast<std::uint64_t>(range.count())}});
    }
  }
  return list;
}

Json plan_json(const ModelFolder& model, const ShardingPlan& plan, const MemoryPlan& memory, bool tensors) {
  const ModelSpec& spec = model.spec;
  Json out{{"model",
            {{"path", model.path},
             {"family", spec.family->name},
             {"architecture", spec.architecture},
             {"parameters", plan.parameters},
             {"dtype_stored", dtype_name(plan.stored_dtype)},
             {"dtype_compute", dtype_name(plan.compute_dtype)},
             {"files", plan.files.size()},
             {"file_bytes", model.checkpoint.file_bytes()}}},
           {"world_size", plan.ranks},
           {"fits", memory.fits},
           {"ranks", Json::array()},
           {"hint", memory.hint.empty() ? Json(nullptr) : Json(memory.hint)}};
  for (std::size_t r = 0; r < plan.per_rank.size(); ++r) {
    const RankMemoryPlan& mine = memory.ranks[r];
    Json roles = Json::object();
    for (const auto& [role, bytes] : plan.per_rank[r].bytes_by_role) roles[role] = bytes;
    out["ranks"].push_back({{"rank", r},
                            {"weights_bytes", mine.weights},
                            {"file_bytes", plan.per_rank[r].file_bytes},
                            {"weights_by_role", roles},
                            {"kv_cache_bytes", mine.kv_cache},
                            {"workspace_bytes", mine.workspace},
                            {"total_bytes", mine.total()},
                            {"budget_bytes", mine.budget},
                            {"fits", mine.fits}});
  }
  if (!tensors) return out;
  out["tensors"] = Json::array();
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    out["tensors"].push_back({{"name", tensor.name},
                              {"role", tensor.role},
                              {"dtype", safetensors_name(tensor.dtype)},
                              {"shape", tensor.shape},
                              {"split", split_name(tensor.split)},
                              {"slices", slices_json(tensor, plan.slices[t])}});
  }
  return out;
}

std::string ranges_text(const PlannedSlice& slice) {
  std::string text;
  for (const Range& range : slice.ranges)
    text += fmt::format("{}{}+{}", text.empty() ? "" : ",", range.begin, range.count());
  return text.empty() ? "-" : text;
}

void print_plan(const ModelFolder& model, const ShardingPlan& plan, const MemoryPlan& memory, bool tensors) {
  fmt::print("{}: {}, {} parameters, stored as {}, computed in {}\n", model.path, model.spec.architecture,
             format_count(plan.parameters), dtype_name(plan.stored_dtype), dtype_name(plan.compute_dtype));
  fmt::print("{} ranks; KV cache for {} tokens, {} sequences of {}\n", plan.ranks,
             format_count(static_cast<std::uint64_t>(memory.kv_tokens())),
             memory.kv_tokens() / std::max<std::int64_t>(memory.limits.max_model_len, 1), memory.limits.max_model_len);
  fmt::print("{:>4} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "rank", "weights", "KV cache", "workspace", "total",
             "budget");
  for (std::size_t r = 0; r < memory.ranks.size(); ++r) {
    const RankMemoryPlan& mine = memory.ranks[r];
    fmt::print("{:>4} {:>12} {:>12} {:>12} {:>12} {:>12}{}\n", r, format_bytes(mine.weights),
               format_bytes(mine.kv_cache), format_bytes(mine.workspace), format_bytes(mine.total()),
               format_bytes(mine.budget), mine.fits ? "" : "  does not fit");
  }
  if (!memory.fits) fmt::print("does not fit: {}\n", memory.hint);
  if (!tensors) return;
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    const PlannedTensor& tensor = plan.tensors[t];
    fmt::print("{} {} [{}] {}:", tensor.name, tensor.role, fmt::join(tensor.shape, ", "), split_name(tensor.split));
    for (const PlannedSlice& slice : plan.slices[t])
      fmt::print(" {}", tensor.split == Split::replicated ? "*" : ranges_text(slice));
    fmt::print("\n");
  }
}

}  // namespace

int run_plan(const PlanOptions& options) {
  const RankCounts counts = parse_ranks(options.ranks);
  const std::vector<std::uint64_t> given = parse_memory(options.memory);
  const Job job = read_target(options);
  const ModelFolder model(job.model.path, Log());
  const DType compute = model.compute_dtype(job.model.dtype);
  Json all = Json::array();
  bool any_fits = false;
  std::optional<Error> refused;
  for (int ranks = counts.least; ranks <= counts.most; ++ranks) {
    try {
      const ShardingPlan plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, ranks, compute);
      const MemoryPlan memory =
          plan_memory(model.spec, plan, job.engine, job.memory.kv_cache, cpu_activation_dtype(compute),
                      budgets_for(job, given, ranks), std::nullopt);
      any_fits = any_fits || memory.fits;
      if (options.json)
        all.push_back(plan_json(model, plan, memory, options.tensors));
      else
        print_plan(model, plan, memory, options.tensors);
    } catch (const Error& e) {
      if (e.code() != ExitCode::does_not_fit) throw;
      refused = e;
    }
  }
  if (refused && (all.empty() && (options.json || counts.least == counts.most))) throw *refused;
  if (options.json) fmt::print("{}\n", counts.least == counts.most ? all[0].dump(1) : all.dump(1));
  return static_cast<int>(any_fits ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace tpinfer
