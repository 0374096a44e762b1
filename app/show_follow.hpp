#pragma once

#include <filesystem>

namespace tpinfer {

/// Shows on stderr how far the job is that writes this result file, until it ends or nobody writes it. Returns at once,
/// without a word, where no job has begun or all has ended.
void follow_job(const std::filesystem::path& file);

}  // namespace tpinfer
