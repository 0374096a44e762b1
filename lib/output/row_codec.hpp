#pragma once

#include "core/bytes.hpp"
#include "output/run_result.hpp"

namespace tpinfer {

// Rows of a result as bytes, for messages between ranks.

void put(ByteWriter& to, const AnswerRow& row);
AnswerRow get_answer_row(ByteReader& from);

/// prompt_logprobs and prompt_top_* alone.
void put_scores(ByteWriter& to, const PromptRow& row);
PromptRow get_scores(ByteReader& from);

void put(ByteWriter& to, const StepRow& row);
StepRow get_step_row(ByteReader& from);

}  // namespace tpinfer
