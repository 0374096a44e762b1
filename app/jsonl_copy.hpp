#pragma once

#include "job/job.hpp"

namespace tpinfer {

// output.jsonl: the rows of the result file as lines beside it, as `tpinfer export --format jsonl` writes them.

/// Before anything is loaded. Error(usage): it stands for another file of the job; Error(output): it cannot be written,
/// or something is there that this job has not made. Does nothing for a job without it.
void check_jsonl_place(const Job& job);

/// Makes it anew from the result file. Error(output).
void write_jsonl(const Job& job);

/// The same where it is missing or older than the result file, as after a kill between the two. -> whether it was.
bool mend_jsonl(const Job& job);

}  // namespace tpinfer
