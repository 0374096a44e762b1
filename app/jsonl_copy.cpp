#include "app/jsonl_copy.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <filesystem>

#include "output/export.hpp"
#include "output/journal_file.hpp"
#include "output/part_file.hpp"
#include "output/result_reader.hpp"

namespace tpinfer {
namespace {

namespace fs = std::filesystem;
constexpr const char* kOption = "output.jsonl";

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ec;
  return fs::equivalent(a, b, ec) || fs::weakly_canonical(a, ec) == fs::weakly_canonical(b, ec);
}

void refuse_other_files_of(const Job& job, const fs::path& file) {
  const auto refuse = [&](const fs::path& other, const char* what) {
    if (is_same_file(file, other))
      throw Error(ExitCode::usage, fmt::format("{}: {} is {}", kOption, file.string(), what), "name a file of its own");
  };
  refuse(job.output.file, "the result file");
  refuse(journal_of(job.output.file), "the journal of the result file");
  refuse(job.output.file + ".part", "the result file while it is written");
  refuse(job.source_name, "the job file");
  for (const std::string& prompts : job.prompts.files) {
    refuse(prompts, "a file of prompts");
    // a pattern would take it for prompts when the job is resumed
    if (::fnmatch(prompts.c_str(), file.c_str(), FNM_PATHNAME) == 0)
      throw Error(ExitCode::usage,
                  fmt::format("{}: {} is matched by prompts.file: {}", kOption, file.string(), prompts),
                  "name it so that the pattern does not");
  }
}

}  // namespace

void check_jsonl_place(const Job& job) {
  if (!job.output.jsonl) return;
  const fs::path file = *job.output.jsonl;
  refuse_other_files_of(job, file);
  check_output_place(file, kOption);
  if (job.output.if_exists == IfExists::overwrite || !output_exists(file, kOption)) return;
  const bool has_result = output_exists(job.output.file) || journal_exists(job.output.file);
  if (job.output.if_exists == IfExists::error || !has_result)
    throw Error(ExitCode::output,
                fmt::format("{}: is there already{}", file.string(),
                            has_result ? "" : fmt::format(", but {} is not", job.output.file)),
                "move it away, set output.if_exists: overwrite, or give another output.jsonl");
}

void write_jsonl(const Job& job) {
  if (!job.output.jsonl) return;
  const auto rows = open_result_rows(job.output.file);
  export_to_file(*rows, {.format = ExportFormat::jsonl}, *job.output.jsonl, kOption);
}

bool mend_jsonl(const Job& job) {
  if (!job.output.jsonl) return false;
  const fs::path file = *job.output.jsonl;
  if (output_exists(file, kOption) && fs::last_write_time(file) >= fs::last_write_time(job.output.file)) return false;
  write_jsonl(job);
  return true;
}

}  // namespace tpinfer
