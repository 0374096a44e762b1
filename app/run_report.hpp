#pragma once

#include <cstdint>
#include <string>

#include "app/progress.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"
#include "runtime/answer_book.hpp"
#include "runtime/rank_worker.hpp"

namespace tpinfer {

/// Progress of the prompts after a step; `blocks`: cache blocks of all replicas.
void show_progress(Progress& progress, const AnswerBook& book, const StepRow& row, std::int64_t blocks);

/// Progress of rank 0's "loading" or "verifying": stored bytes, `seconds` since it began.
void show_reading(Progress& progress, std::string_view what, std::uint64_t done, std::uint64_t total, double seconds);
/// "read 1.02 GB, owns 1.02 GB of weights in 201 tensors"
std::string loaded_text(const RankWorker& worker);
/// Collective: rank 0 tells what the ranks of each host have read, and how fast.
void report_loading(Communicator& comm, const RankWorker& worker, const Log& log);

/// What a run says at its end: failed prompts with their reasons (a screenful at most), counts, rate, memory, and how
/// to see the result in `file`.
void report_end(const Log& log, const RunResult& result, const AnswerBook& book, const std::string& file);

}  // namespace tpinfer
