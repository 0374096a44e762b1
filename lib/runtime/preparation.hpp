#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "job/job.hpp"
#include "output/run_result.hpp"
#include "runtime/engine.hpp"
#include "runtime/memory_plan.hpp"
#include "runtime/model_folder.hpp"
#include "text/tokenizer.hpp"

namespace tpinfer {

/// Everything that rank 0 works out before a weight is read: model, plan, prompts as token ids, memory.
struct Preparation {
  std::unique_ptr<ModelFolder> model;
  std::optional<Tokenizer> tokenizer;  ///< absent when all prompts are token ids and the folder has none
  SamplingRequest generation_config;
  ShardingPlan plan;
  MemoryPlan memory;
  std::vector<PromptRow> prompts;  ///< a row each, failed ones with their error
  std::vector<Request> requests;   ///< of the prompts that can run
  EngineContext context;
};

/// Fills `p`, whose model is there, with the prompts as token ids under the job's limits, and what belongs to them.
/// Error(input, usage).
void prepare_prompts(const Job& job, Preparation& p, const Log& log);

/// What these requests ask of memory.
PromptDemand demand_of(const std::vector<Request>& requests);

/// `budgets`: bytes that each rank may use. Throws Error: input, does_not_fit (with the hint of the memory plan),
/// usage.
Preparation prepare(const Job& job, const std::vector<std::uint64_t>& budgets, DType (*activation_dtype)(DType compute),
                    const Log& log);

}  // namespace tpinfer
