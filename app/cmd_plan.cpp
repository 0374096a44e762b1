#include "app/cmd_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "app/plan_report.hpp"
#include "backend/factory.hpp"
#include "core/units.hpp"
#include "memory/machine_memory.hpp"
#include "runtime/preparation.hpp"
#include "runtime/shrink.hpp"
#include "runtime/smallest_change.hpp"

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
  const auto dots = text.find("..");
  if (dots == std::string::npos) return {number(text), number(text)};
  const RankCounts counts{number(std::string_view(text).substr(0, dots)),
                          number(std::string_view(text).substr(dots + 2))};
  if (counts.most < counts.least) throw Error(ExitCode::usage, fmt::format("--ranks {}: the range is empty", text));
  return counts;
}

// Bytes of each rank; empty when not given.
std::vector<std::uint64_t> parse_memory(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto bytes = parse_size(std::string_view(text).substr(at, end - at));
    if (!bytes)
      throw Error(ExitCode::usage, fmt::format("--memory {}: sizes such as 80GiB or 80GiB,40GiB are needed", text));
    sizes.push_back(*bytes);
    at = end + 1;
  }
  return sizes;
}

bool is_folder(const std::string& target) {
  std::error_code ec;
  return std::filesystem::is_directory(target, ec);
}

// What is planned for: a job, or a bare model folder with the job's defaults.
Job read_target(const PlanOptions& options) {
  if (!is_folder(options.target)) return load_job(options.target, {.sets = options.sets, .limit = {}});
  const std::string folder = std::filesystem::absolute(options.target).string();
  const Json job{{"model", folder}, {"prompts", {{"file", "prompts.jsonl"}}}, {"output", {{"file", "answers.h5"}}}};
  return parse_job_text(job.dump(), options.target, std::filesystem::current_path(),
                        {.sets = options.sets, .limit = {}});
}

/// One call of the command.
class PlanCommand {
 public:
  explicit PlanCommand(const PlanOptions& options) : options_(options), given_(parse_memory(options.memory)) {}

  int run() {
    if (!options_.ranks.empty()) counts_ = parse_ranks(options_.ranks);
    job_ = read_target(options_);
    if (const auto size = job_.parallel.tensor_parallel_size; size && options_.ranks.empty())
      counts_ = parse_ranks(std::to_string(*size));
    check_options();
    prepared_.model = std::make_unique<ModelFolder>(job_.model, note_);
    set_terms();
    if (!is_folder(options_.target)) read_prompts();
    std::vector<PlannedCount> planned;
    for (int ranks = counts_.least; ranks <= counts_.most; ++ranks) planned.push_back(plan(ranks));
    if (one() && !planned.front().refused.empty()) throw Error(ExitCode::does_not_fit, planned.front().refused);
    print(planned);
    const bool any = std::ranges::any_of(planned, [](const PlannedCount& count) { return count.memory.fits; });
    return static_cast<int>(any ? ExitCode::ok : ExitCode::does_not_fit);
  }

 private:
  bool one() const { return counts_.least == counts_.most; }

  void check_options() const {
    if (given_.size() > static_cast<std::size_t>(counts_.most))
      throw Error(ExitCode::usage,
                  fmt::format("--memory {}: {} sizes for {} ranks", options_.memory, given_.size(), counts_.most));
    if (options_.tensors && !one() && !options_.json)
      throw Error(ExitCode::usage,
                  fmt::format("--tensors with --ranks {}: one number of ranks is needed", options_.ranks), "or --json");
  }

  void set_terms() {
    terms_ = {.engine = job_.engine,
              .kv_cache = job_.memory.kv_cache,
              .compute_dtype = prepared_.model->compute_dtype(job_.model.dtype),
              .device = Device::cpu,
              .threads = static_cast<int>(job_.parallel.threads.value_or(0)),
              .budgets = [this](int ranks) { return budgets(ranks); },
              .demand = {}};
  }

  // As given, the last size for all further ranks; else the job's limit; else this machine's memory, shared out.
  std::vector<std::uint64_t> budgets(int ranks) const {
    const std::uint64_t rest =
        given_.empty() ? job_.memory.cpu_memory_limit.value_or(fair_share(usable_, ranks)) : given_.back();
    std::vector<std::uint64_t> each(static_cast<std::size_t>(ranks), rest);
    std::copy_n(given_.begin(), std::min(given_.size(), each.size()), each.begin());
    return each;
  }

  // The plan is made without the prompts where they cannot be read: a login node may lack them.
  void read_prompts() {
    if (std::ranges::find(job_.prompts.files, "-") != job_.prompts.files.end())
      return note_.warning("planned without the prompts: they are to come by standard input");
    try {
      prepare_prompts(job_, prepared_, note_);
    } catch (const Error& e) {
      note_.warning("planned without the prompts: {}", e.what());
      return;
    }
    terms_.demand = demand_of(prepared_.requests);
    report_.emplace();
    report_->count = prepared_.prompts.size();
    report_->longest_sequence = terms_.demand->longest;
    for (const Request& request : prepared_.requests) {
      const auto tokens = static_cast<std::int64_t>(request.token_ids.size());
      if (tokens <= report_->longest) continue;
      report_->longest = tokens;
      report_->longest_id = prepared_.prompts[static_cast<std::size_t>(request.prompt_index)].id;
    }
    for (const PromptRow& row : prepared_.prompts)
      if (row.status == PromptStatus::failed) report_->cannot_run.push_back({row.id, row.error});
  }

  PlannedCount plan(int ranks) const {
    PlannedCount count{.ranks = ranks, .refused = {}};
    const ModelFolder& model = *prepared_.model;
    try {
      count.plan = make_sharding_plan(model.spec, model.checkpoint, model.claims, ranks, terms_.compute_dtype);
    } catch (const Error& e) {
      if (e.code() != ExitCode::does_not_fit) throw;
      count.refused = e.what();
      count.plan.compute_dtype = terms_.compute_dtype;
      return count;
    }
    count.memory = plan_memory(model.spec, count.plan, terms_);
    if (!count.memory.fits && job_.memory.on_no_fit == NoFit::shrink) shrink(count);
    if (!count.memory.fits) count.memory.hint = smallest_change(model, terms_, ranks);
    if (!options_.tensors) count.plan.slices.clear();  // the largest part of a plan
    return count;
  }

  // What the job would do where it does not fit.
  void shrink(PlannedCount& count) const {
    const ModelSpec& spec = prepared_.model->spec;
    const auto engine = shrunk_engine(spec, count.plan, terms_);
    if (!engine) return;
    note_.warning("on {} rank{} the job is shrunk to fit: {} (memory.on_no_fit)", count.ranks,
                  count.ranks == 1 ? "" : "s", engine_changes(terms_.engine, *engine, spec.max_positions));
    PlanTerms terms = terms_;
    terms.engine = *engine;
    count.memory = plan_memory(spec, count.plan, terms);
  }

  // The report, and with a cache of the job's own size the prompts that it cannot hold.
  std::optional<PromptReport> report_for(const MemoryPlan& memory) const {
    std::optional<PromptReport> report = report_;
    for (const Request& request : prepared_.requests) {
      const std::int64_t tokens = static_cast<std::int64_t>(request.token_ids.size()) + request.most_new_tokens;
      if (!report || memory.ranks.empty() || tokens <= memory.kv_tokens()) continue;
      report->cannot_run.push_back(
          {prepared_.prompts[static_cast<std::size_t>(request.prompt_index)].id,
           fmt::format("needs {} tokens of KV cache with its answer, the cache holds {} (memory.kv_cache)", tokens,
                       memory.kv_tokens())});
    }
    return report;
  }

  void print(const std::vector<PlannedCount>& planned) const {
    const ModelFolder& model = *prepared_.model;
    if (!options_.json) {
      const PlannedCount& first = planned.front();
      fmt::print("{}", one() ? plan_text(model, first, report_for(first.memory), options_.tensors)
                             : counts_text(model, planned, report_));
      if (given_.empty() && !job_.memory.cpu_memory_limit)
        fmt::print("the budget is this machine's memory, shared out; --memory gives that of the ranks' own machines\n");
      return;
    }
    Json all = Json::array();
    for (const PlannedCount& count : planned)
      all.push_back(plan_json(model, count, report_for(count.memory), options_.tensors));
    fmt::print("{}\n", (one() ? all[0] : all).dump(1));
  }

  const PlanOptions& options_;
  std::vector<std::uint64_t> given_;
  RankCounts counts_;
  Job job_;
  Log note_{[](LogLevel level, const std::string& text) {
    if (level >= LogLevel::warning) fmt::print(stderr, "tpinfer: note: {}\n", text);
  }};
  std::uint64_t usable_ = usable_memory();
  Preparation prepared_;
  PlanTerms terms_;
  std::optional<PromptReport> report_;
};

}  // namespace

int run_plan(const PlanOptions& options) { return PlanCommand(options).run(); }

}  // namespace tpinfer
