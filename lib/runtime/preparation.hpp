#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/published_sum.hpp"
#include "core/log.hpp"
#include "job/job.hpp"
#include "output/run_result.hpp"
#include "runtime/answering.hpp"
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
  AnsweringContext context;
  std::vector<PublishedSum> sums;  ///< of the weight files, where the job wants them verified
  EngineJob engine;                ///< the job's, or what memory.on_no_fit: shrink has made of it
  KvCacheLimit kv_cache;           ///< the same
};

/// What of a job a complaint is about.
enum class Part : std::uint8_t { job, model, tokenizer, prompts, fit, output };

/// Told of each fault in turn, where all are wanted instead of the first alone.
using OnFault = std::function<void(Part part, const Error& fault)>;

/// Error(usage) when the job asks for a device or a number of ranks that is not there.
void check_parallel(const Job& job, int ranks, const Log& log);

/// Fills `p` with the prompts as token ids under the job's limits, and what belongs to them: generation_config.json and
/// the tokenizer. p.model may be null after a fault; then only what does not need it is looked at.
/// -> true without faults. Error(input, usage) without `on_fault`.
bool prepare_prompts(const Job& job, Preparation& p, const Log& log, const OnFault& on_fault = {});

/// What these requests ask of memory.
PromptDemand demand_of(const std::vector<Request>& requests);

/// Everything that is done before loading: model, prompts, plan and fit, in this order. `budgets`: bytes that each rank
/// may use. Without `on_fault` throws the first Error: input, does_not_fit (with the hint of the memory plan), usage.
/// With it every fault that can be reached is told, and the result is only good for reports.
Preparation prepare(const Job& job, const std::vector<std::uint64_t>& budgets, Device device, const Log& log,
                    const OnFault& on_fault = {});

}  // namespace tpinfer
