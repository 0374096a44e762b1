#pragma once

#include "core/log.hpp"
#include "prompts/prompt_stream.hpp"
#include "runtime/preparation.hpp"
#include "runtime/prompt_encoder.hpp"

namespace tpinfer {

/// Reads all prompts of the stream and encodes them, with as many threads as the job gives, into p.prompts and
/// p.requests; told to `log` are prompts that were cut and a system message without a conversation. -> whether some
/// need a tokenizer that `terms` lacks. Error(input): files that cannot be read, ids that occur twice, no prompts.
bool read_all_prompts(PromptStream& stream, const EncodingTerms& terms, Preparation& p, const Log& log);

}  // namespace tpinfer
