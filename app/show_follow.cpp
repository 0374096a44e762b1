#include "app/show_follow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "app/progress.hpp"
#include "output/answer_stats.hpp"
#include "output/result_reader.hpp"
#include "output/stored_answers.hpp"

namespace tpinfer {
namespace {

constexpr std::chrono::milliseconds kPause{500};

/// Prompts that have ended in the result file that a journal goes on from.
std::int64_t ended_in(const std::filesystem::path& result) {
  std::error_code none;
  if (!std::filesystem::exists(result, none)) return 0;
  const RunResult base = read_result_file(result);
  return static_cast<std::int64_t>(count_prompts(base, PromptStatus::done) + count_prompts(base, PromptStatus::failed));
}

PromptProgress figures(const JournalProgress& journal, std::int64_t base) {
  const std::int64_t ended = journal.done + journal.failed;
  return {.ended = std::min(base + ended, journal.prompts),
          .all = journal.prompts,
          .failed = journal.failed,
          .ended_now = ended - journal.ended_before,
          .left = std::max<std::int64_t>(journal.prompts - base - ended, 0),
          .tokens = journal.tokens,
          .seconds = journal.seconds};
}

}  // namespace

void follow_job(const std::filesystem::path& file) {
  const AnswerFiles files = answer_files(file);
  JournalFollower follower(files.journal);
  Progress progress(ProgressStyle::automatic);
  std::optional<std::int64_t> base;
  while (follower.look()) {
    const bool held = follower.held();
    const JournalProgress& journal = follower.progress();
    if (journal.prompts > 0) {
      if (!base) base = journal.base.empty() ? 0 : ended_in(files.result);
      progress.show(figures(journal, *base));
    } else if (held) {
      progress.show(0, "the job prepares and loads");
    }
    if (!held) {
      if (!follower.look()) return;  // it ended just now
      progress.close();
      fmt::print(stderr, "tpinfer: no job is writing {}: {}; the same command goes on with it\n",
                 files.journal.string(),
                 follower.progress().attempt_has_ended ? "it stopped early" : "it was ended from outside");
      return;
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<WritingJob> writing_job(const std::filesystem::path& file) {
  JournalFollower follower(answer_files(file).journal);
  if (!follower.look()) return std::nullopt;
  return WritingJob{follower.progress().prompts, follower.held()};
}

}  // namespace tpinfer
