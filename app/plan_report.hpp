#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "runtime/memory_plan.hpp"
#include "runtime/model_folder.hpp"

namespace tpinfer {

/// The plan of one rank count.
struct PlannedCount {
  int ranks = 1;
  std::string refused;  ///< why there is no plan for so many ranks; empty: there is one
  ShardingPlan plan = {};
  MemoryPlan memory = {};
};

/// What a job's prompts turned out to be.
struct PromptReport {
  struct Trouble {
    std::string id, reason;
  };
  std::size_t count = 0;
  std::string longest_id;
  std::int64_t longest = 0;           ///< tokens of the longest prompt that can run
  std::int64_t longest_sequence = 0;  ///< tokens of the longest prompt and answer
  std::vector<Trouble> cannot_run;    ///< too long, or faulty
};

/// `tpinfer plan --json` of one rank count; `tensors`: with every tensor's slices.
Json plan_json(const ModelFolder& model, const PlannedCount& count, const std::optional<PromptReport>& prompts,
               bool tensors);

/// The same for people: a row a rank.
std::string plan_text(const ModelFolder& model, const PlannedCount& count, const std::optional<PromptReport>& prompts,
                      bool tensors);

/// Several rank counts for people: a row each.
std::string counts_text(const ModelFolder& model, const std::vector<PlannedCount>& counts,
                        const std::optional<PromptReport>& prompts);

}  // namespace tpinfer
