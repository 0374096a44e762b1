#include "app/run_report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/bytes.hpp"
#include "core/units.hpp"
#include "output/answer_stats.hpp"

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

std::uint64_t read_bytes(const RankWorker& worker) {
  std::uint64_t bytes = 0;
  for (const LoadedBytes& loaded : worker.loaded().by_class) bytes += loaded.read;
  return bytes;
}

/// Of each rank while that fits into a line, else the range.
std::string each_or_range(const std::vector<RankRow>& ranks, std::uint64_t RankRow::Memory::*field) {
  constexpr std::size_t kMost = 8;
  std::vector<std::uint64_t> peaks;
  for (const RankRow& rank : ranks) peaks.push_back(peak_of(rank, field));
  if (peaks.size() > kMost) {
    const auto [least, most] = std::ranges::minmax_element(peaks);
    return fmt::format("{} to {}, most on rank {}", format_bytes(*least), format_bytes(*most),
                       ranks[static_cast<std::size_t>(most - peaks.begin())].rank);
  }
  std::string text;
  for (const std::uint64_t peak : peaks) text += (text.empty() ? "" : ", ") + format_bytes(peak);
  return text;
}

void report_memory(const Log& log, const std::vector<RankRow>& ranks) {
  if (ranks.empty()) return;
  const char* const whose = ranks.size() == 1 ? "rank" : "ranks";
  log.info("peak memory of the {}: {}", whose, each_or_range(ranks, &RankRow::Memory::rss_peak));
  const bool gpu = std::ranges::any_of(ranks, [](const RankRow& r) { return r.device_kind != "cpu"; });
  if (gpu) log.info("of the GPU of the {}: {}", whose, each_or_range(ranks, &RankRow::Memory::device_used));
}

}  // namespace

void show_progress(Progress& progress, const AnswerBook& book, const StepRow& row, std::int64_t blocks) {
  const auto number = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  progress.show({.ended = number(book.done() + book.failed()),
                 .all = number(book.total()),
                 .more = book.more(),
                 .failed = number(book.failed()),
                 .ended_now = number(book.ended()),
                 .left = number(book.left()),
                 .tokens = book.tokens(),
                 .seconds = row.t,
                 .kv_share = row.kv_blocks_used / static_cast<double>(blocks)});
}

void show_reading(Progress& progress, std::string_view what, std::uint64_t done, std::uint64_t total, double seconds) {
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
  const double left = done > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0;
  progress.show(static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)),
                fmt::format("{} {} of {} on rank 0 | {}/s | ETA {}", what, format_bytes(done), format_bytes(total),
                            format_bytes(static_cast<std::uint64_t>(rate)), format_clock(left)));
}

std::string loaded_text(const RankWorker& worker) {
  return fmt::format("read {}, owns {} of weights in {} tensors", format_bytes(read_bytes(worker)),
                     format_bytes(worker.owned_bytes()), worker.loaded().tensors);
}

void report_loading(Communicator& comm, const RankWorker& worker, const Log& log) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  ByteWriter mine;
  mine.put(std::string_view(name));
  mine.put(read_bytes(worker));
  mine.put(worker.loaded().seconds);
  struct Host {
    std::size_t ranks = 0;
    std::uint64_t bytes = 0;
    double seconds = 0;
  };
  std::map<std::string, Host> hosts;
  for (const auto& row : comm.gather(mine.take(), 0, "what was loaded")) {
    ByteReader from(row);
    Host& host = hosts[from.get_string()];
    ++host.ranks;
    host.bytes += from.get<std::uint64_t>();
    host.seconds = std::max(host.seconds, from.get<double>());
  }
  for (const auto& [host, h] : hosts)
    log.info("loaded {} in {:.2f} s ({}/s) by {} rank{} on {}", format_bytes(h.bytes), h.seconds,
             format_bytes(static_cast<std::uint64_t>(static_cast<double>(h.bytes) / std::max(h.seconds, 1e-9))),
             h.ranks, h.ranks == 1 ? "" : "s", host);
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
  if (!book.is_complete())
    log.info("stopped early: {}{}are left; run the same command to go on with them",
             book.left() > 0 ? fmt::format("{} prompts ", book.left()) : "",
             !book.more()      ? ""
             : book.left() > 0 ? "and those that were not read yet "
                               : "prompts that were not read yet ");
  report_memory(log, result.ranks);
  log.info("results: {}; see them with: tpinfer show {}", file, file);
}

}  // namespace tpinfer
