#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/cmd_check.hpp"
#include "app/cmd_diff.hpp"
#include "app/cmd_export.hpp"
#include "app/cmd_merge.hpp"
#include "app/cmd_models.hpp"
#include "app/cmd_plan.hpp"
#include "app/cmd_render.hpp"
#include "app/cmd_run.hpp"
#include "app/cmd_show.hpp"
#include "app/cmd_tokenize.hpp"
#include "build_facts.hpp"
#include "core/error.hpp"

namespace tpinfer {
namespace {

void add_run(CLI::App& app, RunOptions& run, std::string& progress) {
  app.add_option("job", run.job_file, "the job file (job.yaml or job.json)")->required();
  app.add_option("--set", run.overrides.sets, "override a key of the job: key.path=value; may be repeated")
      ->allow_extra_args(false);
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
  app.add_option("target", plan.target, "a job file or a model folder")->required();
  app.add_option("--ranks", plan.ranks, "number of ranks, or a range: 4 or 1..8");
  app.add_option("--memory", plan.memory, "memory of each rank, e.g. 80GiB, or a list: 80GiB,40GiB");
  app.add_option("--set", plan.sets, "override a key of the job")->allow_extra_args(false);
  app.add_flag("--tensors", plan.tensors, "every tensor and what each rank holds of it");
  app.add_flag("--json", plan.json, "machine-readable");
}

void add_models(CLI::App& app, ModelsOptions& models) {
  app.add_flag("--json", models.json, "machine-readable");
  app.add_flag("--markdown", models.markdown, "the table of the README");
}

void add_check(CLI::App& app, CheckOptions& check) {
  app.add_option("job", check.job_file, "the job file (job.yaml or job.json)")->required();
  app.add_option("--set", check.overrides.sets, "override a key of the job: key.path=value; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--limit", check.overrides.limit, "only the first N prompts")->check(CLI::PositiveNumber);
  app.add_option("--ranks", check.ranks, "number of ranks that the job is meant for")->check(CLI::Range(1, 4096));
  app.add_flag("--json", check.json, "machine-readable");
}

void add_show(CLI::App& app, ShowOptions& show) {
  app.add_option("file", show.file, "a result file, also of a job that runs or has not ended")->required();
  app.add_option("--id", show.id, "one prompt, whole");
  app.add_flag("--memory", show.memory, "weights and memory of each rank");
  app.add_flag("--plan", show.plan, "which rank holds what");
  app.add_flag("--errors", show.errors, "prompts that failed");
  app.add_flag("--stats", show.stats, "counts, rates and times");
  app.add_flag("--json", show.json, "machine-readable");
}

void add_diff(CLI::App& app, DiffCommand& diff) {
  app.add_option("a", diff.a, "a result file")->required();
  app.add_option("b", diff.b, "another result file")->required();
  app.add_option("--tolerance", diff.options.tolerance, "log probabilities may differ by this much (default: no bit)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--common", diff.options.common_only,
               "leave out prompts that only one of the files has, or has finished");
  app.add_flag("--json", diff.json, "machine-readable");
}

void add_export(CLI::App& app, ExportCommand& command) {
  app.add_option("file", command.file, "a result file, also of a job that runs or has not ended")->required();
  app.add_option("--format", command.format, "jsonl, csv, text, or openai (lines of a batch output file)")
      ->required()
      ->check(CLI::IsMember({"jsonl", "csv", "text", "openai"}));
  app.add_option("-o,--output", command.output, "the file to write, replaced when it is there; - is standard output");
  app.add_option("--openai-object", command.openai_object, "bodies of openai: chat.completion or text_completion")
      ->check(CLI::IsMember({"chat.completion", "text_completion"}));
}

void add_merge(CLI::App& app, MergeCommand& merge) {
  app.add_option("files", merge.files, "result files, of a job array say")->required();
  app.add_option("-o,--output", merge.output, "the file to write")->required();
  app.add_flag("--overwrite", merge.overwrite, "replace it when it is there");
}

void add_tokenize(CLI::App& app, TokenizeOptions& tokenize) {
  app.add_option("folder", tokenize.folder, "a model folder, or one with the tokenizer's files alone")->required();
  CLI::Option_group* input = app.add_option_group("input", "one of these");
  input->add_option("--text", tokenize.text, "a text to encode");
  input->add_option("--ids", tokenize.ids, "ids to decode: 1,2,3");
  input->add_option("--jsonl", tokenize.jsonl, "a file of records {\"text\"} or {\"ids\"}; - is standard input");
  input->require_option(1);
  app.add_flag("--no-special", tokenize.no_special, "encoding adds no special tokens, decoding leaves them out");
}

void add_render(CLI::App& app, RenderOptions& render) {
  CLI::Option* folder =
      app.add_option("folder", render.folder, "a model folder, or one with the tokenizer's files alone");
  CLI::Option* file = app.add_option("--template", render.template_file, "a template file, instead of the folder's");
  app.add_option("--jsonl", render.jsonl, "a file of records {\"messages\", \"tools\" ...}; - is standard input")
      ->required();
  app.final_callback([folder, file] {
    if (!*folder && !*file) throw CLI::ValidationError("render", "a model folder or --template FILE is needed");
  });
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

// `tpinfer job.yaml` is short for `tpinfer run job.yaml`.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  static constexpr std::string_view kCommands[] = {"run",      "plan",   "check", "models", "show",
                                                   "tokenize", "render", "diff",  "export", "merge"};
  if (!words.empty() && !words[0].starts_with("-") && std::ranges::find(kCommands, words[0]) == std::end(kCommands))
    words.insert(words.begin(), "run");
  std::ranges::reverse(words);  // as CLI11 takes them
  return words;
}

int dispatch(int argc, char** argv) {
  CLI::App app{"Batch inference with large language models over MPI ranks.", "tpinfer"};
  app.set_version_flag("--version",
                       fmt::format("tpinfer {} (commit {}, {}, {})", kVersion, kGitCommit, kBuildType, kCompiler));
  app.require_subcommand(1);
  RunOptions run;
  run.command = command_line(argc, argv);
  PlanOptions plan;
  CheckOptions check;
  ModelsOptions models;
  ShowOptions show;
  TokenizeOptions tokenize;
  RenderOptions render;
  DiffCommand diff;
  ExportCommand exported;
  MergeCommand merge;
  std::string progress = "auto";
  CLI::App* run_command = app.add_subcommand("run", "run a job (the default command)");
  CLI::App* plan_command =
      app.add_subcommand("plan", "what each rank will hold, and whether it fits; needs no MPI and no GPU");
  CLI::App* models_command = app.add_subcommand("models", "families of models, and how each is split over the ranks");
  CLI::App* show_command = app.add_subcommand("show", "look into a result file");
  CLI::App* diff_command = app.add_subcommand("diff", "do two result files give the same answers?");
  CLI::App* export_command = app.add_subcommand("export", "the answers of a result file in other formats");
  CLI::App* merge_command = app.add_subcommand("merge", "result files of a job array put together");
  CLI::App* check_command =
      app.add_subcommand("check", "everything that run would refuse before loading, at once; needs no MPI and no GPU");
  CLI::App* tokenize_command = app.add_subcommand("tokenize", "text to token ids and back, as JSON lines");
  CLI::App* render_command = app.add_subcommand("render", "what a chat template makes of conversations, as JSON lines");
  add_run(*run_command, run, progress);
  add_plan(*plan_command, plan);
  add_check(*check_command, check);
  add_models(*models_command, models);
  add_show(*show_command, show);
  add_tokenize(*tokenize_command, tokenize);
  add_render(*render_command, render);
  add_diff(*diff_command, diff);
  add_export(*export_command, exported);
  add_merge(*merge_command, merge);
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    fmt::print(stderr, "tpinfer: error: {} (tpinfer --help)\n", e.what());
    return static_cast<int>(ExitCode::usage);
  }
  run.progress = progress_style(progress);
  if (run_command->parsed()) return run_job(run);
  if (check_command->parsed()) return run_check(check);
  if (models_command->parsed()) return run_models(models);
  if (tokenize_command->parsed()) return run_tokenize(tokenize);
  if (render_command->parsed()) return run_render(render);
  if (diff_command->parsed()) return run_diff(diff);
  if (export_command->parsed()) return run_export(exported);
  if (merge_command->parsed()) return run_merge(merge);
  return plan_command->parsed() ? run_plan(plan) : run_show(show);
}

}  // namespace
}  // namespace tpinfer

int main(int argc, char** argv) {
  try {
    return tpinfer::dispatch(argc, argv);
  } catch (const tpinfer::JobError& e) {
    fmt::print(stderr, "{}\n", e.what());
    return static_cast<int>(e.code());
  } catch (const tpinfer::Error& e) {
    fmt::print(stderr, "tpinfer: error: {}\n", e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    fmt::print(stderr, "tpinfer: error: {}\n", e.what());
    return static_cast<int>(tpinfer::ExitCode::internal);
  }
}
