#pragma once

#include <cstdint>
#include <string>

#include "app/progress.hpp"
#include "core/log.hpp"
#include "runtime/answer_book.hpp"

namespace tpinfer {

/// Progress of the prompts after a step; `blocks`: cache blocks of all replicas.
void show_progress(Progress& progress, const AnswerBook& book, const StepRow& row, std::int64_t blocks);

/// What a run says at its end: failed prompts with their reasons (a screenful at most), counts, rate, memory, and how
/// to see the result in `file`.
void report_end(const Log& log, const RunResult& result, const AnswerBook& book, const std::string& file);

}  // namespace tpinfer
