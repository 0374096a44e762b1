#pragma once

#include "core/bytes.hpp"
#include "output/journal.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

// What the journal's records hold, as bytes.

void put(ByteWriter& to, const JournalHead& head);
JournalHead get_journal_head(ByteReader& from);

void put(ByteWriter& to, const JournalAttempt& attempt);
JournalAttempt get_journal_attempt(ByteReader& from);

/// The fields of a result that tell about program, host, job, model and sizes of the plan.
void put_about(ByteWriter& to, const RunResult& result);
void get_about(ByteReader& from, RunResult& result);

/// id, text, token_ids, meta and content.
void put_prompt(ByteWriter& to, const PromptRow& row);
PromptRow get_prompt(ByteReader& from);

}  // namespace tpinfer
