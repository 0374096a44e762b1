#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "app/cmd_check.hpp"
#include "app/cmd_completion.hpp"
#include "app/cmd_diff.hpp"
#include "app/cmd_export.hpp"
#include "app/cmd_info.hpp"
#include "app/cmd_man.hpp"
#include "app/cmd_merge.hpp"
#include "app/cmd_models.hpp"
#include "app/cmd_plan.hpp"
#include "app/cmd_render.hpp"
#include "app/cmd_report.hpp"
#include "app/cmd_run.hpp"
#include "app/cmd_schema.hpp"
#include "app/cmd_show.hpp"
#include "app/cmd_tokenize.hpp"
#include "app/cmd_verify.hpp"
#include "app/command_words.hpp"
#include "app/complain.hpp"
#include "app/paint.hpp"
#include "app/usage.hpp"
#include "build_facts.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

void add_run(CLI::App& app, RunOptions& run, std::string& progress) {
  app.add_option("job", run.job_file, "the job file (job.yaml or job.json)")->required()->type_name("FILE");
  app.add_option("--set", run.overrides.sets, "override a key of the job: key.path=value; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--limit", run.overrides.limit, "only the first N prompts")->check(CLI::PositiveNumber);
  app.add_flag("--dry-run", run.dry_run, "check everything that can be checked without loading, then stop");
  app.add_option("--progress", progress, "auto, bar, lines or none")
      ->check(CLI::IsMember({"auto", "bar", "lines", "none"}));
  app.add_flag_callback(
      "--overwrite", [&run] { run.overrides.sets.emplace_back("output.if_exists=overwrite"); },
      "begin anew and replace a result file that is there");
  app.add_flag_callback(
         "--resume", [&run] { run.overrides.sets.emplace_back("output.if_exists=resume"); },
         "go on with what is there (the default of output.if_exists)")
      ->excludes("--overwrite");
}

void add_plan(CLI::App& app, PlanOptions& plan) {
  app.add_option("target", plan.target, "a job file or a model folder")->required()->type_name("PATH");
  app.add_option("--ranks", plan.ranks, "number of ranks, or a range: 4 or 1..8");
  app.add_option("--memory", plan.memory, "memory of each rank, e.g. 80GiB, or a list: 80GiB,40GiB");
  app.add_option("--set", plan.sets, "override a key of the job")->allow_extra_args(false)->type_name("KEY=VALUE");
  app.add_flag("--tensors", plan.tensors, "every tensor and what each rank holds of it");
  app.add_flag("--json", plan.json, "machine-readable");
}

void add_models(CLI::App& app, ModelsOptions& models) {
  app.add_flag("--json", models.json, "machine-readable");
  app.add_flag("--markdown", models.markdown, "the table of the README");
}

void add_check(CLI::App& app, CheckOptions& check) {
  app.add_option("job", check.job_file, "the job file (job.yaml or job.json)")->required()->type_name("FILE");
  app.add_option("--set", check.overrides.sets, "override a key of the job: key.path=value; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--limit", check.overrides.limit, "only the first N prompts")->check(CLI::PositiveNumber);
  app.add_option("--ranks", check.ranks, "number of ranks that the job is meant for")->check(CLI::Range(1, 4096));
  app.add_flag("--json", check.json, "machine-readable");
}

void add_show(CLI::App& app, ShowOptions& show) {
  app.add_option("file", show.file, "a result file, also of a job that runs or has not ended")
      ->required()
      ->type_name("FILE");
  app.add_option("--id", show.id, "one prompt, whole");
  app.add_flag("--memory", show.memory, "weights and memory of each rank");
  app.add_flag("--plan", show.plan, "which rank holds what");
  app.add_flag("--errors", show.errors, "prompts that failed");
  app.add_flag("--stats", show.stats, "counts, rates and times");
  app.add_flag("--follow", show.follow, "first show how far the job is, until it ends");
  app.add_flag("--json", show.json, "machine-readable");
}

void add_diff(CLI::App& app, DiffCommand& diff) {
  app.add_option("a", diff.a, "a result file")->required()->type_name("FILE");
  app.add_option("b", diff.b, "another result file")->required()->type_name("FILE");
  app.add_option("--tolerance", diff.options.tolerance, "log probabilities may differ by this much (default: no bit)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--common", diff.options.common_only,
               "leave out prompts that only one of the files has, or has finished");
  app.add_flag("--json", diff.json, "machine-readable");
}

void add_export(CLI::App& app, ExportCommand& command) {
  app.add_option("file", command.file, "a result file, also of a job that runs or has not ended")
      ->required()
      ->type_name("FILE");
  app.add_option("--format", command.format, "jsonl, csv, text, or openai (lines of a batch output file)")
      ->required()
      ->check(CLI::IsMember({"jsonl", "csv", "text", "openai"}));
  app.add_option("-o,--output", command.output, "the file to write, replaced when it is there; - is standard output")
      ->type_name("FILE");
  app.add_option("--openai-object", command.openai_object, "bodies of openai: chat.completion or text_completion")
      ->check(CLI::IsMember({"chat.completion", "text_completion"}));
}

void add_report(CLI::App& app, ReportCommand& report) {
  app.add_option("file", report.file, "a result file, also of a job that runs or has not ended")
      ->required()
      ->type_name("FILE");
  app.add_option("-o,--output", report.output, "the page to write, replaced when it is there; - is standard output")
      ->required()
      ->type_name("FILE");
}

void add_merge(CLI::App& app, MergeCommand& merge) {
  app.add_option("files", merge.files, "result files, of a job array say")->required()->type_name("FILE");
  app.add_option("-o,--output", merge.output, "the file to write")->required()->type_name("FILE");
  app.add_flag("--overwrite", merge.overwrite, "replace it when it is there");
}

void add_tokenize(CLI::App& app, TokenizeOptions& tokenize) {
  app.add_option("folder", tokenize.folder, "a model folder, or one with the tokenizer's files alone")
      ->required()
      ->type_name("DIR");
  CLI::Option_group* input = app.add_option_group("input", "one of these");
  input->add_option("--text", tokenize.text, "a text to encode");
  input->add_option("--ids", tokenize.ids, "ids to decode: 1,2,3");
  input->add_option("--jsonl", tokenize.jsonl, "a file of records {\"text\"} or {\"ids\"}; - is standard input")
      ->type_name("FILE");
  input->require_option(1);
  app.add_flag("--no-special", tokenize.no_special, "encoding adds no special tokens, decoding leaves them out");
}

void add_render(CLI::App& app, RenderOptions& render) {
  CLI::Option* folder =
      app.add_option("folder", render.folder, "a model folder, or one with the tokenizer's files alone")
          ->type_name("DIR");
  CLI::Option* file =
      app.add_option("--template", render.template_file, "a template file, instead of the folder's")->type_name("FILE");
  app.add_option("--jsonl", render.jsonl, "a file of records {\"messages\", \"tools\" ...}; - is standard input")
      ->required()
      ->type_name("FILE");
  app.final_callback([folder, file] {
    if (!*folder && !*file) throw CLI::ValidationError("render", "a model folder or --template FILE is needed");
  });
}

void add_verify(CLI::App& app, VerifyOptions& verify) {
  app.add_option("file", verify.file, "a result file")->required()->type_name("FILE");
  app.add_flag("--json", verify.json, "machine-readable");
}

void add_color(CLI::App& app, std::string& color) {
  app.add_option("--color", color, "colours: auto (on a terminal, unless NO_COLOR is set), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

ProgressStyle progress_style(const std::string& word) {
  if (word == "bar") return ProgressStyle::bar;
  if (word == "lines") return ProgressStyle::lines;
  return word == "none" ? ProgressStyle::none : ProgressStyle::automatic;
}

std::string command_line(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += (i ? " " : "") + std::string(argv[i]);
  return text;
}

/// The commands with their options, and what each of them runs.
class CommandLine {
 public:
  CommandLine(int argc, char** argv) : argc_(argc), argv_(argv) {
    app_.set_version_flag("--version",
                          fmt::format("tpinfer {} (commit {}, {}, {})", kVersion, kGitCommit, kBuildType, kCompiler));
    app_.require_subcommand(1);
    app_.footer(
        "A job runs with: mpirun -np 4 tpinfer job.yaml (tpinfer job.yaml is one rank).\n"
        "What a job may say: README.md, tpinfer schema. What is wrong with one: tpinfer check job.yaml");
    run_.command = command_line(argc, argv);
    add_jobs();
    add_results();
    add_tools();
    add_color(app_, color_);
    for (CLI::App* command : app_.get_subcommands({})) add_color(*command, color_);
  }

  /// -> the exit code. `errors`: colours of standard error, once they are known.
  int run(Paint& errors) {
    std::vector<std::string> words;
    try {
      words = command_line_words(app_, argc_, argv_);
      app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // last ones first, as CLI11 takes them
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) return app_.exit(e);  // --help, --version
      return refuse(fmt::format("{} ({})", e.what(), usage_hint(app_, words)), words.empty(), errors);
    } catch (const Error& e) {
      return refuse(e.what(), false, errors);
    }
    errors = Paint(color_, STDERR_FILENO);
    run_.errors = check_.errors = errors;
    show_.error_paint = errors;
    info_.paint = verify_.paint = show_.paint = diff_.paint = check_.paint = Paint(color_, STDOUT_FILENO);
    run_.progress = progress_style(progress_);
    for (const auto& [command, work] : commands_)
      if (command->parsed()) return work();
    return static_cast<int>(ExitCode::internal);  // one command is required
  }

 private:
  // Every rank has the same command line: one complains. The launcher ends it as soon as another has ended.
  int refuse(const std::string& what, bool help, const Paint& errors) const {
    if (!is_first_rank()) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    } else {
      if (help) fmt::print(stderr, "{}", app_.help());
      fmt::print(stderr, "tpinfer: {} {}\n", errors.error("error:"), what);
    }
    return static_cast<int>(ExitCode::usage);
  }

  CLI::App& add(const char* name, const char* description, std::function<int()> work) {
    commands_.emplace_back(app_.add_subcommand(name, description), std::move(work));
    return *commands_.back().first;
  }

  void add_jobs() {
    add_run(add("run", "run a job (the default command)", [this] { return run_job(run_); }), run_, progress_);
    add_plan(add("plan", "what each rank will hold, and whether it fits; needs no MPI and no GPU",
                 [this] { return run_plan(plan_); }),
             plan_);
    add_check(add("check", "everything that run would refuse before loading, at once; needs no MPI and no GPU",
                  [this] { return run_check(check_); }),
              check_);
    add("info", "build, libraries, processor, memory, GPUs and limits, of every rank under a launcher; what is amiss",
        [this] { return run_info(info_); })
        .add_flag("--json", info_.json, "machine-readable");
    add_models(add("models", "families of models, and how each is split over the ranks",
                   [this] { return run_models(models_); }),
               models_);
  }

  void add_results() {
    add_show(add("show", "look into a result file", [this] { return run_show(show_); }), show_);
    add_export(add("export", "the answers of a result file in other formats", [this] { return run_export(export_); }),
               export_);
    add_diff(add("diff", "do two result files give the same answers?", [this] { return run_diff(diff_); }), diff_);
    add_merge(add("merge", "result files of a job array put together", [this] { return run_merge(merge_); }), merge_);
    add_verify(add("verify", "is a result file complete and undamaged, and was what was planned loaded?",
                   [this] { return run_verify(verify_); }),
               verify_);
    add_report(add("report", "a result file as one page with pictures (HTML)", [this] { return run_report(report_); }),
               report_);
  }

  void add_tools() {
    add_tokenize(
        add("tokenize", "text to token ids and back, as JSON lines", [this] { return run_tokenize(tokenize_); }),
        tokenize_);
    add_render(add("render", "what a chat template makes of conversations, as JSON lines",
                   [this] { return run_render(render_); }),
               render_);
    add("schema", "JSON Schema of the job file, for editors and checkers", [] { return run_schema(); });
    add("completion", "completion of commands and options for a shell",
        [this] { return run_completion(command_words(app_), shell_); })
        .add_option("shell", shell_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    add("man", "the manual page", [this] { return run_man(command_words(app_)); }).group("");
  }

  int argc_;
  char** argv_;
  CLI::App app_{"Batch inference with large language models over MPI ranks.", "tpinfer"};
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands_;
  RunOptions run_;
  PlanOptions plan_;
  CheckOptions check_;
  InfoOptions info_;
  ModelsOptions models_;
  ShowOptions show_;
  ExportCommand export_;
  DiffCommand diff_;
  MergeCommand merge_;
  VerifyOptions verify_;
  ReportCommand report_;
  TokenizeOptions tokenize_;
  RenderOptions render_;
  std::string shell_, progress_ = "auto", color_ = "auto";
};

}  // namespace
}  // namespace tpinfer

int main(int argc, char** argv) {
  tpinfer::Paint errors("auto", STDERR_FILENO);
  try {
    return tpinfer::CommandLine(argc, argv).run(errors);
  } catch (const std::exception& e) {
    tpinfer::complain(e, errors);
    return static_cast<int>(tpinfer::code_of(e));
  }
}
