#include "app/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/units.hpp"

namespace tpinfer {
namespace {

void report_failed(const RunResult& result, const std::string& file) {
  constexpr std::size_t kMost = 20;
  std::size_t count = 0;
  for (const PromptRow& row : result.prompts)
    if (row.status == PromptStatus::failed && ++count <= kMost)
      fmt::print(stderr, "tpinfer: error: prompt {}: {}\n", row.id, row.error);
  if (count > kMost)
    fmt::print(stderr, "tpinfer: error: {} more prompts failed (tpinfer show {} --errors)\n", count - kMost, file);
}

}  // namespace

void show_progress(Progress& progress, const AnswerBook& book, const StepRow& row, std::int64_t blocks) {
  const std::size_t all = book.total();
  const std::size_t ended = book.done() + book.failed();
  const double share = static_cast<double>(ended) / static_cast<double>(all);
  // what earlier attempts have done says nothing about the rate of this one
  const double left =
      book.ended() > 0 ? row.t * static_cast<double>(book.left()) / static_cast<double>(book.ended()) : 0;
  progress.show(
      share, fmt::format("{}/{} prompts | {:.0f} tok/s | {} elapsed | ETA {} | kv {:.0f}% | failed {}", ended, all,
                         static_cast<double>(book.tokens()) / std::max(row.t, 1e-9), format_clock(row.t),
                         format_clock(left), 100.0 * row.kv_blocks_used / static_cast<double>(blocks), book.failed()));
}

void report_end(const Log& log, const RunResult& result, const AnswerBook& book, const std::string& file) {
  report_failed(result, file);
  double first = 1e300;
  double last = 0;
  const std::int32_t attempt = result.attempts.empty() ? 0 : static_cast<std::int32_t>(result.attempts.size()) - 1;
  for (const AnswerRow& row : result.answers) {
    if (row.attempt != attempt) continue;
    first = std::min(first, row.t_queued);
    last = std::max(last, row.t_finished);
  }
  const double seconds = std::max(last - first, 0.0);
  const auto skipped = std::ranges::count(result.prompts, PromptStatus::skipped, &PromptRow::status);
  log.info("{} of {} prompts answered, {} failed{}, {} tokens in {:.2f} s ({:.0f} tok/s)", book.done(), book.total(),
           book.failed(), skipped > 0 ? fmt::format(", {} skipped", skipped) : "", book.tokens(), seconds,
           static_cast<double>(book.tokens()) / std::max(seconds, 1e-9));
  if (book.left() > 0)
    log.info("stopped early: {} prompts are left; run the same command to go on with them", book.left());
  std::uint64_t peak = 0;
  for (const RankRow& rank : result.ranks) peak = std::max(peak, rank.memory.back().rss_peak);
  log.info("results: {}{}; see them with: tpinfer show {}", file,
           peak > 0 ? fmt::format(" (largest rank: {} resident)", format_bytes(peak)) : "", file);
}

}  // namespace tpinfer
