#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/published_sum.hpp"
#include "core/log.hpp"
#include "job/job.hpp"
#include "output/run_result.hpp"
#include "runtime/answering.hpp"
#include "runtime/memory_plan.hpp"
#include "runtime/model_folder.hpp"
#include "runtime/prompt_reading.hpp"
#include "text/tokenizer.hpp"

namespace tpinfer {

/// Everything that rank 0 works out before a weight is read: model, plan, prompts as token ids, memory.
struct Preparation {
  std::unique_ptr<ModelFolder> model;
  std::optional<Tokenizer> tokenizer;  ///< absent when all prompts are token ids and the folder has none
  SamplingRequest generation_config;
  ShardingPlan plan;
  MemoryPlan memory;
  Device device = Device::cpu;          ///< that the plan is for
  std::vector<PromptRow> prompts;       ///< a row each, failed ones with their error
  std::vector<Request> requests;        ///< of the prompts that can run
  std::unique_ptr<PromptReading> more;  ///< there are more prompts: these are the first part; else null
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

/// How a preparation reads the prompts.
struct ReadingTerms {
  /// More than these need not be known before loading. They are none the less where the plan depends on them: where no
  /// room can be made for prompts of any length, where the model may have no tokenizer, and with HDF5 files.
  PartLimit first;
  StopReading stopped;  ///< may be empty
};

/// Fills `p` with the prompts as token ids under the job's limits, and what belongs to them: generation_config.json and
/// the tokenizer. p.model may be null after a fault; then only what does not need it is looked at.
/// -> true without faults. Error(input, usage) without `on_fault`.
bool prepare_prompts(const Job& job, Preparation& p, const Log& log, const OnFault& on_fault = {},
                     const ReadingTerms& reading = {});

/// What the prompts of `p` are encoded with; `job` and `p` must stay where they are.
EncodingTerms encoding_terms(const Job& job, const Preparation& p);

/// What these requests ask of memory.
PromptDemand demand_of(std::span<const Request> requests);

/// Everything that is done before loading: model, prompts, plan and fit, in this order. `budgets`: bytes that each rank
/// may use. Without `on_fault` throws the first Error: input, does_not_fit (with the hint of the memory plan), usage.
/// With it every fault that can be reached is told, and the result is only good for reports.
Preparation prepare(const Job& job, const std::vector<std::uint64_t>& budgets, Device device, const Log& log,
                    const OnFault& on_fault = {}, const ReadingTerms& reading = {});

/// The room that a prompt with its answer must find in a cache of the job's own size.
struct CacheRoom {
  std::int64_t blocks = 0, block_size = 0, window = 0;
  bool skip = false;  ///< prompts.on_too_long: skip

  explicit CacheRoom(const Job& job, const Preparation& p);
  /// Whether it does; else the row says why not.
  bool holds(const Request& request, PromptRow& row) const;
};

}  // namespace tpinfer
