#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tpinfer {

/// Shows on stderr how far the job is that writes this result file, until it ends or nobody writes it. Returns at once,
/// without a word, where no job has begun or all has ended.
void follow_job(const std::filesystem::path& file);

/// What the journal of a result file that is not complete tells of its job.
struct WritingJob {
  std::int64_t prompts = 0;  ///< of the whole job
  bool held = false;         ///< a job writes it now
};

/// Nothing where there is no journal.
std::optional<WritingJob> writing_job(const std::filesystem::path& file);

}  // namespace tpinfer
