#include "prompts/selection.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>

namespace tpinfer {
namespace {

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The variable's number; `standard` where it is not set, if there is one.
std::int64_t slurm_number(const char* name, std::optional<std::int64_t> standard = std::nullopt) {
  const char* text = std::getenv(name);
  if ((!text || !*text) && standard) return *standard;
  if (!text || !*text)
    throw Error(ExitCode::usage, fmt::format("prompts.select.shard: slurm_array needs {}, which is not set", name),
                "start the job by sbatch --array, or give a part such as 3/16");
  const auto value = to_number(text);
  if (!value)
    throw Error(ExitCode::usage, fmt::format("prompts.select.shard: slurm_array: {} is \"{}\", no number", name, text));
  return *value;
}

Shard slurm_shard() {
  const std::int64_t id = slurm_number("SLURM_ARRAY_TASK_ID");
  const std::int64_t count = slurm_number("SLURM_ARRAY_TASK_COUNT");
  const std::int64_t first = slurm_number("SLURM_ARRAY_TASK_MIN", 0);
  const std::int64_t step = slurm_number("SLURM_ARRAY_TASK_STEP", 1);
  const std::int64_t last = slurm_number("SLURM_ARRAY_TASK_MAX", first + (count - 1) * step);
  const bool even = step > 0 && count > 0 && id >= first && id <= last && (id - first) % step == 0 &&
                    (last - first) % step == 0 && (last - first) / step + 1 == count;
  // ids such as 1,3,7 do not tell which parts the other tasks take
  if (!even)
    throw Error(ExitCode::usage,
                fmt::format("prompts.select.shard: slurm_array: task {} of {} tasks from {} to {} with step {} is no "
                            "place in an unbroken range",
                            id, count, first, last, step),
                "use --array=1-N or --array=0-N:STEP, or give a part such as 3/16");
  return {(id - first) / step, count};
}

}  // namespace

Shard parse_shard(const std::string& text) {
  if (text == "slurm_array") return slurm_shard();
  const auto slash = text.find('/');
  const auto part = to_number(text.substr(0, slash));
  const auto count = slash == std::string::npos ? std::nullopt : to_number(text.substr(slash + 1));
  if (!part || !count || *part < 1 || *part > *count)
    throw Error(ExitCode::usage, fmt::format("prompts.select.shard: {} is no part", text),
                "the parts of 16 are 1/16 to 16/16");
  return {*part - 1, *count};
}

Selection::Selection(const SelectJob& job) : begin_(job.offset), end_(std::numeric_limits<std::int64_t>::max()) {
  if (job.limit && *job.limit < end_ - begin_) end_ = begin_ + *job.limit;
  if (job.shard) shard_ = parse_shard(*job.shard);
}

bool Selection::take() {
  const std::int64_t at = seen_++;
  return at >= begin_ && at < end_ && (at - begin_) % shard_.count == shard_.index;
}

}  // namespace tpinfer
