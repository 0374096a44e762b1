#include "app/cmd_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "app/complain.hpp"
#include "app/jsonl_copy.hpp"
#include "backend/factory.hpp"
#include "core/units.hpp"
#include "memory/machine_memory.hpp"
#include "output/part_file.hpp"
#include "runtime/answer_store.hpp"
#include "runtime/preparation.hpp"
#include "runtime/run_identity.hpp"

namespace tpinfer {
namespace {

constexpr std::size_t kMostPrompts = 20;  // failed prompts that are listed

struct Finding {
  bool warning = false;
  Part part = Part::job;
  ExitCode code = ExitCode::ok;
  std::string message;
  bool placed = false;  ///< begins with its place in the job file
};

std::string_view part_name(Part part) {
  static constexpr std::string_view kNames[] = {"job", "model", "tokenizer", "prompts", "fit", "output"};
  return kNames[static_cast<std::size_t>(part)];
}

/// One call of the command.
class CheckCommand {
 public:
  explicit CheckCommand(const CheckOptions& options) : options_(options) {}

  int run() {
    if (read_job()) check();
    const auto first = std::ranges::find_if(findings_, [](const Finding& f) { return !f.warning; });
    const ExitCode code = first == findings_.end() ? ExitCode::ok : first->code;
    if (options_.json)
      print_json(code);
    else
      print(code);
    return static_cast<int>(code);
  }

 private:
  // -> false when there is no job, or too little of one, to look further with.
  bool read_job() {
    try {
      job_ = load_job(options_.job_file, options_.overrides);
      return true;
    } catch (const JobError& e) {
      for (const std::string& line : e.lines()) findings_.push_back({false, Part::job, e.code(), line, true});
      if (e.rest()) job_ = *e.rest();
      return e.rest() != nullptr;
    } catch (const Error& e) {
      add(Part::job, e);
    }
    return false;
  }

  // In the order of `run`, so that the first fault is the one that it would stop at.
  void check() {
    const Log log([this](LogLevel level, const std::string& text) {
      if (level >= LogLevel::warning) findings_.push_back({true, Part::model, ExitCode::ok, text});
    });
    ranks_ = options_.ranks > 0 ? options_.ranks : static_cast<int>(job_.parallel.tensor_parallel_size.value_or(1));
    KernelSet kernels = KernelSet::scalar;
    attempt(Part::job, [&] { kernels = choose_kernel_set(kernel_set_word()); });
    attempt(Part::job, [&] { check_parallel(job_, ranks_, log); });
    const std::uint64_t share = job_.memory.cpu_memory_limit.value_or(fair_share(usable_memory(), ranks_));
    const std::vector<std::uint64_t> budgets(static_cast<std::size_t>(ranks_), share);
    prepared_ = prepare(job_, budgets, Device::cpu, log, [this](Part part, const Error& e) { add(part, e); });
    attempt(Part::output, [&] { check_jsonl_place(job_); });
    attempt(Part::output, [&] { check_output(kernels, log); });
    add_failed_prompts();
  }

  // Also what earlier attempts have left there.
  void check_output(KernelSet kernels, const Log& log) {
    if (!prepared_.model) return check_output_place(job_.output.file);
    AnswerStore(job_.output, identity_of(job_, prepared_, kernels), {}, log)
        .look(prepared_.prompts, prepared_.requests);
  }

  static std::string kernel_set_word() {
    const char* word = std::getenv("TPINFER_ISA");
    return word ? word : "";
  }

  template <class Step>
  void attempt(Part part, Step step) {
    try {
      step();
    } catch (const Error& e) {
      add(part, e);
    }
  }

  void add(Part part, const Error& e) {
    const std::string text = e.what();
    // one cause may stop several steps
    if (std::ranges::any_of(findings_, [&](const Finding& f) { return f.message == text; })) return;
    findings_.push_back({false, part, e.code(), text});
  }

  void add_failed_prompts() {
    std::size_t failed = 0;
    for (const PromptRow& row : prepared_.prompts) {
      if (row.status != PromptStatus::failed || ++failed > kMostPrompts) continue;
      findings_.push_back(
          {false, Part::prompts, ExitCode::prompts_failed, fmt::format("prompt {}: {}", row.id, row.error)});
    }
    if (failed > kMostPrompts)
      findings_.push_back({false, Part::prompts, ExitCode::prompts_failed,
                           fmt::format("{} more of {} prompts fail", failed - kMostPrompts, prepared_.prompts.size())});
  }

  std::string head(const Finding& f) const {
    return fmt::format("tpinfer: {} ",
                       f.warning ? options_.errors.warning("warning:") : options_.errors.error("error:"));
  }

  void print(ExitCode code) const {
    for (const Finding& f : findings_)
      fmt::print(stderr, "{}\n", f.placed ? painted_fault(f.message, options_.errors) : head(f) + f.message);
    if (code != ExitCode::ok) return;
    const auto& ranks = prepared_.memory.ranks;
    const auto largest = std::ranges::max_element(ranks, {}, &RankMemoryPlan::total);
    fmt::print("{}: {}: {} prompts, {} on {} rank{} with up to {} of {} each, answers to {}\n", options_.job_file,
               options_.paint.good("ready to run"), prepared_.requests.size(), prepared_.model->spec.architecture,
               ranks_, ranks_ == 1 ? "" : "s", format_bytes(largest->total()), format_bytes(largest->budget),
               job_.output.file);
  }

  void print_json(ExitCode code) const {
    Json list = Json::array();
    for (const Finding& f : findings_)
      list.push_back({{"severity", f.warning ? "warning" : "error"},
                      {"kind", part_name(f.part)},
                      {"code", static_cast<int>(f.code)},
                      {"message", f.message}});
    const Json out{{"ok", code == ExitCode::ok}, {"exit", static_cast<int>(code)}, {"findings", list}};
    fmt::print("{}\n", out.dump(1, ' ', false, Json::error_handler_t::replace));  // names may hold any bytes
  }

  const CheckOptions& options_;
  Job job_;
  int ranks_ = 1;
  Preparation prepared_;
  std::vector<Finding> findings_;
};

}  // namespace

int run_check(const CheckOptions& options) { return CheckCommand(options).run(); }

}  // namespace tpinfer
