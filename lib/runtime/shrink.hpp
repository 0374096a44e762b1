#pragma once

#include <optional>
#include <string>

#include "runtime/preparation.hpp"
#include "runtime/smallest_change.hpp"

namespace tpinfer {

/// memory.on_no_fit: shrink. The engine with which `plan` fits where that of `terms` does not: fewer sequences or fewer
/// rows at a time, whichever keeps the larger share; else both; else a shorter max_model_len, below the longest prompt
/// only where nothing else helps. None when even the least engine is too much.
std::optional<EngineJob> shrunk_engine(const ModelSpec& spec, const ShardingPlan& plan, const PlanTerms& terms);

/// "engine.max_num_seqs is 32 instead of 256, ..."
std::string engine_changes(const EngineJob& from, const EngineJob& to, std::int64_t max_positions);

/// Makes the requests of `p` those of a model that takes `most` tokens: answers end there, and prompts that leave no
/// room for one get their row's error (`skip`: are skipped).
void shorten_requests(Preparation& p, std::int64_t most, bool skip);

}  // namespace tpinfer
