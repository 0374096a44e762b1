#include "app/cmd_merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "core/error.hpp"
#include "core/units.hpp"
#include "output/part_file.hpp"
#include "output/result_join.hpp"
#include "output/result_reader.hpp"
#include "output/result_writer.hpp"
#include "runtime/run_identity.hpp"

namespace tpinfer {
namespace {

constexpr const char* kOption = "-o";

void refuse_other_runs(const RunResult& first, const RunResult& part, const std::string& first_name,
                       const std::string& name) {
  const std::vector<std::string> found = differences(first.identity(), part.identity());
  if (found.empty()) return;
  throw Error(ExitCode::input,
              fmt::format("{} and {} are not of one kind of run: {}", first_name, name, fmt::join(found, "; ")),
              "answers of different models, types or kernels are not put together");
}

}  // namespace

int run_merge(const MergeCommand& command) {
  if (output_exists(command.output, kOption) && !command.overwrite)
    throw Error(ExitCode::output, fmt::format("{}: is there already", command.output.string()),
                "give another file to -o, or --overwrite");
  std::vector<RunResult> parts;
  std::vector<std::string> names;
  for (const auto& file : command.files) {
    parts.push_back(read_result_file(file));
    names.push_back(file.string());
    refuse_other_runs(parts.front(), parts.back(), names.front(), names.back());
  }
  RunResult all = join_results(std::move(parts), names);
  all.events.push_back({0, 0, "info", fmt::format("merged from {}", fmt::join(names, ", "))});
  write_result_file(command.output, all);
  const auto open = std::ranges::count(all.prompts, PromptStatus::pending, &PromptRow::status);
  fmt::print(stderr, "tpinfer: {} prompts and {} answers of {} files in {}{}\n", format_count(all.prompts.size()),
             format_count(all.answers.size()), names.size(), command.output.string(),
             open > 0 ? fmt::format(" ({} prompts are still open)", open) : "");
  return static_cast<int>(ExitCode::ok);
}

}  // namespace tpinfer
